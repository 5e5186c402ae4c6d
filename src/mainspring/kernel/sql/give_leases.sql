-- Free shards of mine, for a certain worker or for anyone. Part of a transaction that holds their runs, all or nothing.
update mainspring.lease
set worker_id = null, epoch = %(epoch)s::bigint, offered_to = %(offered_to)s::uuid, given_at = mainspring.now()
where pool = %(pool)s::text and worker_id = %(worker_id)s::uuid and shard = any(%(shards)s::integer[])
returning shard
