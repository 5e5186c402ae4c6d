-- Days that history should have from yesterday on and has not, of its runs and of its bundles; whether it never had one.
select d.day::date as day, n.name, h.parent, not exists (
  select from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'mainspring.history_run'::regclass and c.relname ~ '^history_\d{4}_\d\d_\d\d$') as has_none
from generate_series(
  (mainspring.now() at time zone 'UTC')::date - 1, (mainspring.now() at time zone 'UTC')::date + %(ahead)s::integer, '1 day') as d(day)
cross join (values ('history_run', 'history_'), ('history_bundle', 'history_bundle_')) as h(parent, prefix)
cross join lateral (select h.prefix || to_char(d.day, 'YYYY_MM_DD') as name) n
where to_regclass('mainspring.' || n.name) is null
order by d.day, n.name
