-- Adopt the shards that the table says are mine, in the pool and in its bands, under a new epoch: a give of mine that
-- is still on its way (its answer was lost) compares the old one and comes to nothing.
update mainspring.lease
set epoch = %(epoch)s::bigint
where pool >= %(pool)s::text and pool < %(pool)s::text || ' ' and worker_id = %(worker_id)s::uuid
returning pool, shard, worker_id, epoch, offered_to, suspect_of
