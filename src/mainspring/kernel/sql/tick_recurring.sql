-- Ticks of a schedule: its target is inserted once for each, under a key of its own, and the last tick is noted. Nothing happens if
-- the schedule was changed, paused or removed since it was read, or the first of these ticks was made before. Locks the
-- schedule's row, then inserts in the order of the visits' primary key.
with mine as (
  update mainspring.recurring
  set last_at = %(last)s::timestamptz, last_id = %(last_id)s::uuid, make_up = null
  where name = %(name)s::text and paused_at is null and revision = %(revision)s::bigint
    and (last_at is null or last_at < %(first)s::timestamptz)
  returning queue, priority, grp
),
fresh as (
  insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, version, payload, created_at, changed_at)
  select i.shard, i.key, m.queue, i.id, m.grp, m.priority, mainspring.now(), i.version, i.payload::jsonb, mainspring.now(),
    mainspring.now()
  from mine m, unnest(%(shards)s::integer[], %(keys)s::text[], %(ids)s::uuid[], %(versions)s::bigint[], %(payloads)s::text[])
    as i(shard, key, id, version, payload)
  order by 1, 2, 3
  on conflict (shard, key, queue) do nothing
  returning queue, due_at
)
select queue, mainspring.wake(queue, min(due_at)) from fresh group by queue
