-- All leases of the pool.
select shard, worker_id, epoch, offered_to, suspect_of from mainspring.lease where pool = %(pool)s::text
