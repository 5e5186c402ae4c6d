-- What opens the schema to those who should not have it: a function that everybody may call, a definer function without a fixed
-- search_path, a table that everybody may use, an object that belongs to somebody else than the schema. Reads catalogues only.
select x.object, x.fault, x.owner
from (
  select p.oid::regprocedure::text as object,
    case
      when p.prosecdef and not exists (
        select from unnest(p.proconfig) c where c ~ '^search_path=pg_catalog(, mainspring)?, pg_temp$') then 'definer'
      when exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0) then 'open'
      when p.proowner <> n.nspowner then 'owner'
    end as fault, pg_get_userbyid(p.proowner) as owner
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'mainspring'
  union all
  select c.oid::regclass::text,
    case
      when exists (select from aclexplode(c.relacl) a where a.grantee = 0) then 'open'
      when c.relowner <> n.nspowner then 'owner'
    end, pg_get_userbyid(c.relowner)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'mainspring' and c.relkind in ('r', 'p', 'v', 'S')
  union all
  select 'schema mainspring', 'open', pg_get_userbyid(n.nspowner)
  from pg_namespace n, aclexplode(n.nspacl) a where n.nspname = 'mainspring' and a.grantee = 0 and a.privilege_type = 'CREATE'
) x
where x.fault is not null
order by 2, 1
