-- Enqueue calls, all or none, each once for its id (kernel/functions/enqueue_calls.sql says how). Answers in the order given.
select id::text, key, is_new from mainspring.enqueue_calls(%(queues)s::text[], %(payloads)s::text[], %(due_ats)s::timestamptz[],
  %(delays)s::interval[], %(expires_ats)s::timestamptz[], %(priorities)s::integer[], %(groups)s::text[], %(keys)s::text[],
  %(ids)s::uuid[])
