-- Make visits due now that are due later (functions/call_off.sql says what it locks and rides).
select queue, key, id, hints from mainspring.make_due(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[])
