-- The ids of the visits that have these keys now. Rides the primary key.
select v.queue, v.key, v.id
from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[]) as i(shard, key, queue)
join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
