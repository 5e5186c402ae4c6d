-- All suspects of these shards were looked at: forget whose they were. Compares the epochs: a recut may have written
-- a lease of mine that I have not seen, with suspects of its own.
update mainspring.lease
set suspect_of = null
where pool >= %(pool)s::text and pool < %(pool)s::text || ' ' and worker_id = %(worker_id)s::uuid
  and shard = any(%(shards)s::integer[]) and epoch = any(%(epochs)s::bigint[])
