-- For a recut: who owns the pool or its bands in these shards from now on, under a new epoch. Rows that are there are locked.
insert into mainspring.lease as l (pool, shard, worker_id, epoch, suspect_of)
select pool, shard, worker_id, %(epoch)s::bigint, suspect_of
from unnest(%(pools)s::text[], %(shards)s::integer[], %(owners)s::uuid[], %(suspects)s::uuid[])
  as i(pool, shard, worker_id, suspect_of)
on conflict (pool, shard) do update
set worker_id = excluded.worker_id, epoch = excluded.epoch, suspect_of = excluded.suspect_of, offered_to = null
