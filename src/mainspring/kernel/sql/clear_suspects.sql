-- All suspects of these shards were looked at: forget whose they were.
update mainspring.lease
set suspect_of = null
where pool = %(pool)s::text and worker_id = %(worker_id)s::uuid and shard = any(%(shards)s::integer[])
