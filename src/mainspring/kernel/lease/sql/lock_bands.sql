-- For a recut, after lock_shards: lock the bands of these shards. What others have locked is left out. Rides the primary key.
select pool, shard, worker_id, epoch, offered_to, suspect_of
from mainspring.lease
where pool > %(pool)s::text and pool < %(pool)s::text || ' ' and shard = any(%(shards)s::integer[])
for update skip locked
