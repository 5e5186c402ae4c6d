-- Free shards of mine, for a certain worker or for anyone. Part of a transaction that holds their runs, all or nothing.
-- Compares the epoch: sent late, it must not free a shard that I have adopted again since.
-- No join: without statistics of who owns what, each of a thousand leases would be met with each of a thousand shards.
update mainspring.lease l
set worker_id = null, epoch = %(epoch)s::bigint, offered_to = %(offered_to)s::uuid, given_at = mainspring.now()
where l.pool = %(pool)s::text
  and l.worker_id = %(worker_id)s::uuid
  and l.epoch = (%(epochs)s::bigint[])[array_position(%(shards)s::integer[], l.shard)]
returning l.shard
