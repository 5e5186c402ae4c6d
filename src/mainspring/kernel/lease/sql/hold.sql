-- Hold visits: mark each as run by a run of mine. Only if nobody offered, settled or held it since it was read, and
-- only by a worker that has a row: a hold that comes after its worker was declared dead comes to nothing.
-- Locks in (shard, key, queue) order and skips what others have locked. Answers the runs that hold now.
with item as (
  select shard, key, queue, version, run, started, work_timeout
  from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[], %(versions)s::bigint[], %(runs)s::bigint[],
    %(started)s::double precision[], %(work_timeouts)s::double precision[])
    as i(shard, key, queue, version, run, started, work_timeout)
),
free as materialized (
  select v.shard, v.key, v.queue, i.run, i.started, i.work_timeout
  from item i
  join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
  where v.version = i.version and (v.pass is null or v.pass = i.run) and v.parked_at is null
    and exists (select from mainspring.worker w where w.id = %(worker_id)s::uuid)
  order by v.shard, v.key, v.queue
  for update of v skip locked
)
update mainspring.visit v
set pass = f.run, holder = %(worker_id)s::uuid, started_at = to_timestamp(f.started),
  held_until = to_timestamp(f.started) + make_interval(secs => f.work_timeout), changed_at = mainspring.now()
from free f
where v.shard = f.shard and v.key = f.key and v.queue = f.queue
returning f.run
