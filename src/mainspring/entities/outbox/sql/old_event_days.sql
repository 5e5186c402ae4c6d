-- Days of kept events that are older than any kind keeps its events. Locks nothing.
select c.relname as name
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'mainspring.event_kept'::regclass and c.relname ~ '^event_kept_\d{4}_\d\d_\d\d$'
  and to_date(right(c.relname, 10), 'YYYY_MM_DD') < (mainspring.now() - make_interval(secs => coalesce(
    (select max((k.declared ->> 'keep_events')::double precision) from mainspring.kind k), 0)))::date
order by 1
