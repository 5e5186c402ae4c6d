-- Free parked visits; what is not answered was not freed (functions/operate.sql says what it locks and rides).
select queue, key, id, hints from mainspring.restart_visits(%(shards)s::text, %(keys)s::text, %(queues)s::text, %(versions)s::text,
  %(priority)s::smallint, %(fresh_ids)s::boolean)
