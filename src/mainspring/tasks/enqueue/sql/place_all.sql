-- Place calls that may have keys, with the rights of the caller (kernel/functions/enqueue_calls.sql says how, and what it locks and
-- rides). Answers in the order given.
select id, key, outcome from mainspring.place_all(%(queues)s::text[], %(payloads)s::text[], %(due_ats)s::timestamptz[],
  %(delays)s::interval[], %(expires_ats)s::timestamptz[], %(priorities)s::integer[], %(groups)s::text[], %(keys)s::text[],
  %(ids)s::uuid[], %(uniques)s::text[])
