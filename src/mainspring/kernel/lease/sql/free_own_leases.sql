-- At the end: whatever shards I still have, of the pool and of its bands, are free for anyone.
update mainspring.lease
set worker_id = null, offered_to = null
where pool >= %(pool)s::text and pool < %(pool)s::text || ' ' and worker_id = %(worker_id)s::uuid
