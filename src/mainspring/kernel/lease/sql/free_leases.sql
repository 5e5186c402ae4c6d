-- Free a worker's shards, of the pool and of its bands, noting whose runs are in doubt: the dead one's. Those that were before, if
-- it leaves or was only cut off (`fenced`).
update mainspring.lease
set worker_id = null, epoch = %(epoch)s::bigint, offered_to = null, suspect_of = case when %(fenced)s::boolean then suspect_of else %(dead_id)s::uuid end
where pool >= %(pool)s::text and pool < %(pool)s::text || ' ' and worker_id = %(dead_id)s::uuid
returning shard
