-- Where visits are that a layer knows by key and queue alone: one with a group lies on its group's shard. Rides the
-- primary key's first two columns.
select v.shard, v.key, v.queue
from unnest(%(keys)s::text[], %(queues)s::text[]) as i(key, queue)
join mainspring.visit v on v.key = i.key and v.queue = i.queue
