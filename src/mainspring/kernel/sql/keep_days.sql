-- Days that history should have from yesterday on and has not, of its runs and of its bundles.
select d.day::date as day, n.name, h.parent
from generate_series(
  (mainspring.now() at time zone 'UTC')::date - 1, (mainspring.now() at time zone 'UTC')::date + %(ahead)s::integer, '1 day') as d(day)
cross join (values ('history_run', 'history_'), ('history_bundle', 'history_bundle_')) as h(parent, prefix)
cross join lateral (select h.prefix || to_char(d.day, 'YYYY_MM_DD') as name) n
where to_regclass('mainspring.' || n.name) is null
order by d.day, n.name
