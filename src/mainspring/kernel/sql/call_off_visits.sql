-- Call visits off, waiting or running (functions/call_off.sql says what it locks and rides).
select queue, key, id, answer from mainspring.call_off_visits(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[],
  %(reason)s::text, %(waits)s::boolean, %(spares_held)s::boolean)
