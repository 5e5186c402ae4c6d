-- Insert visits, in the form that costs least for many; a key that is taken is left as it is. (It is looked for, not met:
-- the caller has a lock under which nobody else adds these, and to be ready for a conflict costs a lock and a log record
-- a row.) Due now, unless they say later. Sorted by key. Rides the primary key.
-- Sleeping workers are told of the queues that are named: what the caller starts itself is nobody else's concern.
-- That the caller may be running these is noted like a read: after a death they are among the suspects.
with item as (
  select i.shard, i.key, i.queue, i.id, i.grp, i.priority, i.version, i.payload, mainspring.now() as now,
    greatest(coalesce(i.due_at, mainspring.now()), mainspring.now()) as due_at
  from rows from (
    unnest(%(shards)s::text::integer[]), json_array_elements_text(%(keys)s::text::json), json_array_elements_text(%(queues)s::text::json),
    unnest(%(ids)s::text::uuid[]), unnest(%(priorities)s::text::smallint[]), unnest(%(versions)s::text::bigint[]),
    json_array_elements_text(%(payloads)s::text::json), unnest(%(due_ats)s::timestamptz[]),
    json_array_elements_text(%(groups)s::text::json)
  ) as i(shard, key, queue, id, priority, version, payload, due_at, grp)
  order by i.shard, i.key, i.queue
),
fresh as (
  insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, version, payload, created_at, changed_at)
  select shard, key, queue, id, grp, priority, due_at, version, payload::jsonb, now, now
  from item i
  where not exists (select from mainspring.visit v where v.shard = i.shard and v.key = i.key and v.queue = i.queue)
  returning queue, priority, due_at, key
),
noted as (
  insert into mainspring.reach (worker_id, queue, priority, due_at, key)
  select %(worker_id)s::uuid, queue, priority, max(due_at), max(key)
  from fresh
  where %(worker_id)s::uuid is not null and due_at <= mainspring.now()
  group by queue, priority
)
select mainspring.wake(queue, min(due_at))
from fresh
where queue = any(%(waking)s::text[])
group by queue
