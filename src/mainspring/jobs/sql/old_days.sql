-- Partitions of history whose whole day is older than is kept.
select c.relname as name
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent in ('mainspring.history_run'::regclass, 'mainspring.history_bundle'::regclass)
  and c.relname ~ '^history_(bundle_)?\d{4}_\d\d_\d\d$'
  and to_date(right(c.relname, 10), 'YYYY_MM_DD') < (mainspring.now() at time zone 'UTC')::date - %(keep)s::integer
order by 1
