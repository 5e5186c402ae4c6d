-- For a recut, after lock_shards: how many bands each of these shards has. Locks nothing: bands come and go only with the whole row's lock.
select shard, count(*) as bands
from mainspring.lease
where pool > %(pool)s::text and pool < %(pool)s::text || ' ' and shard = any(%(shards)s::integer[])
group by shard
