-- For a recut: leases of a band that is no more in these shards. Their rows are locked.
delete from mainspring.lease where pool = %(pool)s::text and shard = any(%(shards)s::integer[])
