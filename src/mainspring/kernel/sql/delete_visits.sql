-- Delete visits that are not needed any more, without history: a layer's own timers and looks. Locks in (shard, key,
-- queue) order and skips what others have locked: what is left over finds nothing to do. Rides the primary key.
with unneeded as materialized (
  select v.shard, v.key, v.queue
  from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[]) as i(shard, key, queue)
  join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
  order by v.shard, v.key, v.queue
  for update of v skip locked
)
delete from mainspring.visit v
using unneeded u
where v.shard = u.shard and v.key = u.key and v.queue = u.queue
returning v.queue, v.key
