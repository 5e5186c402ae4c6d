-- Free parked visits: due now, nothing counted against them, a new version. Each keeps its id (its idempotency key)
-- unless fresh ones are asked for, and its priority unless another is given. An expiry that has passed is lifted, and so
-- is a process's task timeout: an operator wants it to run.
-- Locks in (shard, key, queue) order and skips what others have locked. What is not answered was not freed.
-- Rides the primary key, one visit at a time: a join would walk over all that is parked at times, for every page of it.
with wanted as materialized (
  select v.shard, v.key, v.queue
  from (
    select shard, key, queue
    from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[]) as i(shard, key, queue)
    order by shard, key collate "C", queue collate "C"
  ) i
  cross join lateral (
    select shard, key, queue
    from mainspring.visit
    where shard = i.shard and key = i.key and queue = i.queue and parked_at is not null
    for update skip locked
  ) v
),
freed as (
  update mainspring.visit v
  set parked_at = null, offered_while_parked = false, attempt = 0, crashes = 0, work_timeouts = 0, error = null,
    due_at = mainspring.now(), version = mainspring.token(), priority = coalesce(%(priority)s::smallint, v.priority),
    id = case when %(fresh_ids)s::boolean then mainspring.uuid7() else v.id end,
    expires_at = case when v.expires_at > mainspring.now() then v.expires_at end,
    payload = case when v.payload ? '@' then v.payload - 'deadline' else v.payload end,
    changed_at = mainspring.now()
  from wanted w
  where v.shard = w.shard and v.key = w.key and v.queue = w.queue
  returning v.queue, v.key, v.id
),
hint as materialized (
  select mainspring.wake(queue, mainspring.now()) from (select distinct queue from freed) f
)
select queue, key, id, (select count(*) from hint) as hints
from freed
