-- Days of kept events that should be there and are not, where a kind keeps events. Locks nothing.
select d.day::date::text as day
from generate_series((mainspring.now() at time zone 'UTC')::date, (mainspring.now() at time zone 'UTC')::date + 7, '1 day') as d(day)
where exists (select from mainspring.kind k where k.declared ->> 'keep_events' is not null)
  and to_regclass('mainspring.event_kept_' || to_char(d.day, 'YYYY_MM_DD')) is null
order by d.day
