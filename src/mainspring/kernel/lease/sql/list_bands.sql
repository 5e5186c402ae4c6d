-- For a recut, after lock_shards: the shard of each band of these shards. Locks nothing: bands come and go only with the whole row's lock.
select shard
from mainspring.lease
where pool > %(pool)s::text and pool < %(pool)s::text || ' ' and shard = any(%(shards)s::integer[])
