-- Enqueue calls by the function: for a role that may not insert visits. Answers in the order given.
select id, key, outcome from mainspring.enqueue_each(%(queues)s::text[], %(payloads)s::text[], %(due_ats)s::timestamptz[],
  %(delays)s::interval[], %(expires_ats)s::timestamptz[], %(priorities)s::integer[], %(groups)s::text[], %(keys)s::text[],
  %(ids)s::uuid[], %(uniques)s::text[])
