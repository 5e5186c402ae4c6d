-- Offer many visits: offer.sql (which has the rule of merging) with the batch as one text a column, which takes the server less
-- time to read than arrays; a record a row (json_to_recordset) takes six times as long.
-- Always writes: the new version tells a run under way that something happened. Upserts in (shard, key, queue) order.
with item as (
  select i.shard, i.key, i.queue, i.id, i.priority, i.version, i.payload::jsonb as payload, mainspring.now() as now,
    greatest(coalesce(i.due_at::timestamptz, mainspring.now() + make_interval(secs => i.after), mainspring.now()),
      mainspring.now()) as due_at
  from rows from (
    unnest(%(shards)s::text::integer[]), json_array_elements_text(%(keys)s::text::json),
    json_array_elements_text(%(queues)s::text::json), unnest(%(ids)s::text::uuid[]),
    unnest(%(priorities)s::text::smallint[]), unnest(%(versions)s::text::bigint[]),
    json_array_elements_text(%(payloads)s::text::json), json_array_elements_text(%(due_ats)s::text::json),
    unnest(%(afters)s::text::double precision[])
  ) as i(shard, key, queue, id, priority, version, payload, due_at, after)
  order by i.shard, i.key collate "C", i.queue collate "C"
),
offered as (
  insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
  select shard, key, queue, id, priority, due_at, version, payload, now, now
  from item
  on conflict (shard, key, queue) do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    priority = greatest(v.priority, excluded.priority),
    payload = v.payload || excluded.payload,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at
  returning v.queue, v.due_at
)
select mainspring.wake(queue, min(due_at)) from offered group by queue
