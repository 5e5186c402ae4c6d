-- All leases of the pool and of its bands (names that go on with chr(31); no pool's name has a control character): the shards (their
-- numbers, with commas) of each worker, epoch and so on. Shards that were taken together are alike, so a beat reads a few
-- rows instead of one for each shard. Rides the primary key.
select pool, string_agg(shard::text, ',' order by shard) as shards, worker_id, epoch, offered_to, suspect_of
from mainspring.lease
where pool >= %(pool)s::text and pool < %(pool)s::text || ' '
group by pool, worker_id, epoch, offered_to, suspect_of
order by pool, min(shard)
