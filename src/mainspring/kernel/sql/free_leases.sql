-- Free a dead worker's shards, of the pool and of its bands, noting whose runs are in doubt.
update mainspring.lease
set worker_id = null, epoch = %(epoch)s::bigint, offered_to = null, suspect_of = %(dead_id)s::uuid
where pool >= %(pool)s::text and pool < %(pool)s::text || ' ' and worker_id = %(dead_id)s::uuid
returning shard
