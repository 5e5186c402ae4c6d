-- Enqueue calls of records that may have been read before: one whose id waits, runs or is in history is not enqueued again
-- (kernel/functions/enqueue_calls.sql says how). Answers their ids.
select id::text from mainspring.enqueue_each(%(queues)s::text[], %(payloads)s::text[], %(due_ats)s::timestamptz[],
  %(delays)s::interval[], %(expires_ats)s::timestamptz[], %(priorities)s::integer[], %(groups)s::text[], %(keys)s::text[],
  %(ids)s::uuid[], %(uniques)s::text[])
