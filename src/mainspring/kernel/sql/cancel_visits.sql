-- Call visits off; what is not answered was not called off (functions/operate.sql says what it locks and rides).
select queue, key, id from mainspring.cancel_visits(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[], %(reason)s::text,
  %(parked_only)s::boolean)
