-- Delete visits whatever they are at, for a layer that has what they belong to for itself alone: held runs are refused
-- by their token. Locks in (shard, key, queue) order and waits. Answers what is gone, whether a run held it, and its version:
-- that of the runs that are to be told.
with unneeded as materialized (
  select v.shard, v.key, v.queue
  from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[]) as i(shard, key, queue)
  join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
  order by v.shard, v.key, v.queue
  for update of v
)
delete from mainspring.visit v
using unneeded u
where v.shard = u.shard and v.key = u.key and v.queue = u.queue
returning v.queue, v.key, v.pass is not null as was_held, v.version
