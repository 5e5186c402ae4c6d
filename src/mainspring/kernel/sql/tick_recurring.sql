-- A tick of a recurring visit: its target is inserted under a key of its own, and the tick is noted. Nothing happens if
-- the schedule was changed, paused or removed meanwhile, or this tick was made before. Locks the recurring row.
with mine as (
  update mainspring.recurring
  set last_at = %(tick)s::timestamptz, last_id = %(id)s::uuid
  where name = %(name)s::text and paused_at is null and cron = %(cron)s::text and zone = %(zone)s::text
    and (last_at is null or last_at < %(tick)s::timestamptz)
  returning queue, payload, priority
),
fresh as (
  insert into mainspring.visit (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
  select %(shard)s::integer, %(key)s::text, queue, %(id)s::uuid, priority, mainspring.now(), %(version)s::bigint, payload,
    mainspring.now(), mainspring.now()
  from mine
  on conflict (shard, key, queue) do nothing
  returning queue, due_at
)
select queue, mainspring.wake(queue, due_at) from fresh
