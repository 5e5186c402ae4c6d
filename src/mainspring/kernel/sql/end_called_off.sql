-- End those of these visits that were called off and are held no more (functions/call_off.sql says what it locks and rides).
select queue, key, id from mainspring.end_called_off(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[])
