-- The policy of an actor that is served from elsewhere, whether it is paused, whether workers serve it themselves, whether a
-- limit must be kept, and the time. Locks nothing. No row: no code has declared it.
select q.policy::text, q.paused_at is not null as paused,
  exists (select from mainspring.worker w where w.queues @> array[q.name]::text[]) as served,
  q.concurrency is not null or q.rate is not null as limited,
  extract(epoch from mainspring.now())::double precision as now
from mainspring.queue q
where q.name = %(queue)s::text
