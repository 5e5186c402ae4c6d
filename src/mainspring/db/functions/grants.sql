-- Who may call what; applied last by every migrate. Nothing is open to everybody: a function is granted by "mainspring rights",
-- or here, by what a role has on our tables. So a role that an earlier release let in goes on, and one of a worker may call what
-- a new release brings. What runs with the caller's own rights gives nobody a right that he has not.
do $$
declare
  schema constant oid := 'mainspring'::regnamespace;
  item record;
  was_open constant boolean := exists (
    select from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.oid = 'mainspring.changed(text, text[], text[])'::regprocedure and a.grantee = 0);
begin
  for item in
    select p.oid::regprocedure as name from pg_proc p
    where p.pronamespace = schema and pg_has_role(p.proowner, 'usage') and exists (
      select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0)
  loop
    execute format('revoke execute on function %s from public', item.name);
  end loop;
  for item in
    with has as (
      select a.grantee as role, c.relname as name, a.privilege_type as privilege
      from pg_class c, aclexplode(c.relacl) a
      where c.relnamespace = schema and c.relkind in ('r', 'p', 'v') and a.grantee not in (0, c.relowner)
      union
      select x.grantee, c.relname, x.privilege_type
      from pg_class c join pg_attribute a on a.attrelid = c.oid, aclexplode(a.attacl) x
      where c.relnamespace = schema and c.relkind in ('r', 'p', 'v') and x.grantee not in (0, c.relowner)
      union
      -- Until migration 18 whoever had the schema could call these.
      select a.grantee, 'schema', 'USAGE' from pg_namespace n, aclexplode(n.nspacl) a
      where was_open and n.oid = schema and a.grantee not in (0, n.nspowner)
    )
    select p.oid::regprocedure as function, h.role::regrole as role
    from (
      select h.role,
        bool_or(h.name not in ('install', 'migration', 'schema')) as on_tables,
        bool_or(h.name = 'visit' and h.privilege = 'INSERT') as enqueues,
        bool_or(h.name = 'history_run' and h.privilege = 'SELECT') as asks,
        bool_or(h.name = 'param' and h.privilege = 'UPDATE') as advances,
        bool_or(h.name = 'param_rewind' and h.privilege = 'INSERT') as rewinds,
        bool_or(h.name = 'lease' and h.privilege = 'UPDATE') as works,
        bool_or(h.name = 'schema') as had_all
      from has h group by h.role
    ) h
    join pg_proc p on p.pronamespace = schema and p.prorettype <> 'trigger'::regtype and pg_has_role(p.proowner, 'usage')
    where not has_function_privilege(h.role, p.oid, 'execute') and (
      h.works
      or h.on_tables and not p.prosecdef
      or h.enqueues and p.proname in ('enqueue', 'enqueue_many', 'result_of')
      or h.asks and p.proname = 'result_of'
      or h.advances and p.proname in ('advance', 'advance_params')
      or h.rewinds and p.proname in ('rewind', 'rewind_param')
      or h.had_all and p.proname in ('changed', 'offer', 'canonical_keys', 'key_of', 'key_expression', 'own_column',
        'key_part', 'prints_equals_alike', 'offer_changed', 'offer_entity'))
  loop
    execute format('grant execute on function %s to %s', item.function, item.role);
  end loop;
  -- A worker's role has the tables that a new release brings, but for those that only the owner writes.
  for item in
    select c.oid::regclass as name, w.role::regrole as role, c.relkind,
      c.relname in ('migration', 'install', 'entry', 'captured') as is_owners
    from (select distinct a.grantee as role from pg_class c, aclexplode(c.relacl) a
      where c.oid = 'mainspring.lease'::regclass and a.privilege_type = 'UPDATE' and a.grantee not in (0, c.relowner)) w
    join pg_class c on c.relnamespace = schema and c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
    where case c.relkind when 'S' then not has_sequence_privilege(w.role, c.oid, 'usage')
      else not has_table_privilege(w.role, c.oid, 'select') end
  loop
    execute format('grant %s on %s to %s', case when item.is_owners then 'select'
      when item.relkind = 'S' then 'usage, select, update' else 'select, insert, update, delete' end,
      case when item.relkind = 'S' then 'sequence ' else '' end || item.name, item.role);
  end loop;
end
$$;
