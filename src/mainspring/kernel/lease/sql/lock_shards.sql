-- For a recut: lock the whole rows of these shards, which are there for ever, cut or not. What others have locked is left out.
-- First of its transaction: whoever has a shard's whole row alone may make or drop bands of that shard.
select pool, shard, worker_id, epoch, offered_to, suspect_of
from mainspring.lease
where pool = %(pool)s::text and shard = any(%(shards)s::integer[])
order by shard
for update skip locked
