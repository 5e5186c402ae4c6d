-- Free shards of mine, for a certain worker or for anyone. Part of a transaction that holds their runs, all or nothing.
-- Compares the epoch: sent late, it must not free a shard that I have adopted again since.
update mainspring.lease l
set worker_id = null, epoch = %(epoch)s::bigint, offered_to = %(offered_to)s::uuid, given_at = mainspring.now()
from unnest(%(shards)s::integer[], %(epochs)s::bigint[]) as g(shard, epoch)
where l.pool = %(pool)s::text and l.shard = g.shard and l.worker_id = %(worker_id)s::uuid and l.epoch = g.epoch
returning l.shard
