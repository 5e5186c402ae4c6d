-- All workers, with what they own and hold. Locks nothing.
select w.id, w.pool, w.queues, w.slots, w.free, w.asleep, w.host, w.process, w.started_at, w.beat,
  greatest(0, extract(epoch from mainspring.now() - w.beat_at))::double precision as silent_seconds,
  (select count(distinct l.shard) from mainspring.lease l where l.worker_id = w.id) as shards,
  (select count(*) from mainspring.visit v where v.pass is not null and v.holder = w.id) as holds,
  w.hanging::text as hanging, w.away::text as away
from mainspring.worker w
order by w.pool, w.host, w.process, w.started_at
