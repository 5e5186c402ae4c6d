-- Partitions of history whose whole day is older than is kept.
select c.relname as name
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'mainspring.history'::regclass
  and c.relname ~ '^history_\d{4}_\d\d_\d\d$'
  and to_date(substr(c.relname, 9), 'YYYY_MM_DD') < (mainspring.now() at time zone 'UTC')::date - %(keep)s::integer
order by 1
