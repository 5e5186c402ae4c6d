-- All leases of the pool: the shards (their numbers, with commas) of each worker, epoch and so on. Shards that were taken
-- together are alike, so a beat reads a few rows instead of one for each shard.
select string_agg(shard::text, ',' order by shard) as shards, worker_id, epoch, offered_to, suspect_of
from mainspring.lease
where pool = %(pool)s::text
group by worker_id, epoch, offered_to, suspect_of
order by min(shard)
