-- Call visits off: delete them and say so in history, so that whoever asks for their result is told.
-- The history row is no run: no time passes in it, its worker is the nil id. What a run holds is left alone; a short
-- run that holds nothing comes too late and its settle is refused.
-- Locks in (shard, key, queue) order and skips what others have locked. What is not answered was not called off.
with wanted as materialized (
  select v.shard, v.key, v.queue
  from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[]) as i(shard, key, queue)
  join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
  where v.pass is null and (v.parked_at is not null or not %(parked_only)s::boolean)
  order by v.shard, v.key, v.queue
  for update of v skip locked
),
gone as (
  delete from mainspring.visit v
  using wanted w
  where v.shard = w.shard and v.key = w.key and v.queue = w.queue
  returning v.id, v.queue, v.key, v.grp, v.priority,
    case when v.parked_at is null then least(v.attempt, 2147483646) + 1 else greatest(1, v.attempt) end as attempt, v.created_at, v.due_at, v.error, v.payload
),
story as (
  insert into mainspring.history_run (day, run, id, queue, key, grp, priority, attempt, outcome, worker_id, created_at, due_at,
    started_at, ended_at, duration_ms, error, payload, searchable)
  select (mainspring.now() at time zone 'UTC')::date, mainspring.token(), g.id, g.queue, g.key, g.grp, g.priority, g.attempt,
    'cancelled', '00000000-0000-0000-0000-000000000000', g.created_at, g.due_at, mainspring.now(), mainspring.now(), 0,
    %(reason)s::text, g.payload,
    (select array_agg(left(f || '=' || (g.payload ->> f), 500)) from unnest(q.searchable) f where g.payload ? f)
  from gone g
  left join mainspring.queue q on q.name = g.queue
)
select queue, key, id
from gone
