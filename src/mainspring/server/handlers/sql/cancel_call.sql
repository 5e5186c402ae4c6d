-- Call a call off, whether it waits or a run holds it (functions/call_off.sql says what it locks and rides).
select id::text from mainspring.call_off_visits(array[%(shard)s::integer], array[%(key)s::text], array[%(task)s::text], %(reason)s::text,
  true, false)
