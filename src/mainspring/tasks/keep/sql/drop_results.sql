-- Results of a queue's runs that ended so many seconds ago, from a position on: so many runs are looked at. What is dropped says so.
-- Answers how many were looked at, and the position of the last. Rides history_time. Two upkeeps write the same.
with seen as materialized (
  select h.key, h.run, h.day, h.ended_at, h.result is not null and not h.result @> '{"$": {"dropped": true}}' as has_result
  from mainspring.history_run h
  where h.queue = %(queue)s::text and h.ended_at >= %(since)s::timestamptz and (h.ended_at, h.run) > (%(since)s::timestamptz, %(run)s::bigint)
    and h.ended_at < mainspring.now() - make_interval(secs => %(keep)s::double precision)
  order by h.ended_at, h.run
  limit %(most)s::integer
),
dropped as (
  update mainspring.history_run h set result = '{"$": {"dropped": true}}'
  from seen s
  where s.has_result and h.key = s.key and h.run = s.run and h.day = s.day
),
last as (
  select ended_at, run from seen order by ended_at desc, run desc limit 1
),
noted as (
  update mainspring.retention r
  set dropped_until = l.ended_at, dropped_run = l.run, begun_on = (mainspring.now() at time zone 'UTC')::date
  from last l
  where r.queue = %(queue)s::text
)
select (select count(*) from seen)::integer as seen, l.ended_at as since, l.run
from (values (1)) one left join last l on true
