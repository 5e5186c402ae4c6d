-- Take free shards: those freed for me first, then any whose favoured worker is gone or going. Skips rows that others take.
-- No join: without statistics of a new pool each of a thousand leases would be met with each of a thousand shards.
-- Locks my own row first: a take that arrives after I was declared dead must leave no shard to a dead id.
with me as materialized (
  select id from mainspring.worker where id = %(worker_id)s::uuid for key share
),
free as materialized (
  select shard
  from mainspring.lease l
  where pool = %(pool)s::text
    and worker_id is null
    and (offered_to is null or offered_to = %(worker_id)s::uuid
      or not exists (select from mainspring.worker w where w.id = l.offered_to and w.slots > 0))
    and exists (select from me)
  order by offered_to is distinct from %(worker_id)s::uuid, shard
  limit %(most)s::integer
  for update skip locked
)
update mainspring.lease l
set worker_id = %(worker_id)s::uuid, epoch = %(epoch)s::bigint, offered_to = null
where l.pool = %(pool)s::text and l.shard = any(array(select shard from free))
returning l.pool, l.shard, l.worker_id, l.epoch, l.offered_to, l.suspect_of
