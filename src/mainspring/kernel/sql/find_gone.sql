-- Which runs have no visit any more: it was deleted or settled, and what has its key now is another. Rides the primary key.
select i.run
from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[], %(ids)s::uuid[], %(runs)s::bigint[])
  as i(shard, key, queue, id, run)
where not exists (
  select from mainspring.visit v
  where v.shard = i.shard and v.key = i.key and v.queue = i.queue and v.id = i.id)
