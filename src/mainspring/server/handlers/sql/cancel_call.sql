-- Call a visit off that no run holds (functions/operate.sql says what it locks and rides).
select id::text from mainspring.cancel_visits(array[%(shard)s::integer], array[%(key)s::text], array[%(task)s::text], %(reason)s::text,
  false)
