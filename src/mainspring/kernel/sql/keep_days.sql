-- History's days: those that should exist from yesterday on, and those that are older than is kept.
select d.day::date as day, to_char(d.day, '"history_"YYYY_MM_DD') as name
from generate_series(
  (mainspring.now() at time zone 'UTC')::date - 1, (mainspring.now() at time zone 'UTC')::date + %(ahead)s::integer, '1 day') as d(day)
where to_regclass('mainspring.' || to_char(d.day, '"history_"YYYY_MM_DD')) is null
order by 1
