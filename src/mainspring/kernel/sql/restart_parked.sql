-- Free parked visits: due now, nothing counted against them, a new version. Each keeps its id (its idempotency key)
-- unless fresh ones are asked for, and its priority unless another is given. An expiry that has passed is lifted, and so
-- is a process's task timeout: an operator wants it to run.
-- Without shards a visit is found wherever it lies. Skips what others have locked. What is not answered was not freed.
-- Rides the primary key, one visit at a time: a join would walk over all that is parked at times, for every page of it.
with wanted as materialized (
  select v.address, i.version
  from (
    select unnest(%(shards)s::text::integer[]) as shard, json_array_elements_text(%(keys)s::text::json) as key,
      json_array_elements_text(%(queues)s::text::json) as queue, unnest(%(versions)s::text::bigint[]) as version
  ) i
  cross join lateral (
    select ctid as address
    from mainspring.visit
    where key = i.key and queue = i.queue and shard = coalesce(i.shard, shard) and parked_at is not null
    for update skip locked
  ) v
),
freed as (
  update mainspring.visit v
  set parked_at = null, offered_while_parked = false, attempt = 0, crashes = 0, work_timeouts = 0, error = null,
    due_at = mainspring.now(), version = w.version, priority = coalesce(%(priority)s::smallint, v.priority),
    id = case when %(fresh_ids)s::boolean then mainspring.uuid7() else v.id end,
    expires_at = case when v.expires_at > mainspring.now() then v.expires_at end,
    payload = case when v.payload ?& array['@', 'deadline'] then v.payload - 'deadline' else v.payload end,
    changed_at = mainspring.now()
  from wanted w
  where v.ctid = w.address
  returning v.queue, v.key, v.id
),
hint as materialized (
  select mainspring.wake(queue, mainspring.now()) from (select distinct queue from freed) f
)
select queue, key, id, (select count(*) from hint) as hints
from freed
