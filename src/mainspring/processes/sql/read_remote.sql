-- The policy of an actor that is served from elsewhere, whether it is paused, how many more runs its limit allows, whether
-- workers serve it themselves, and the time. Locks its row where a limit must be kept. No row: no code has declared it.
select q.policy::text, q.paused_at is not null as paused,
  case when q.concurrency is not null
    then greatest(0, q.concurrency - (select count(*) from mainspring.visit v where v.queue = q.name and v.pass is not null))
  end as room,
  exists (select from mainspring.worker w where w.queues @> array[q.name]::text[]) as served,
  extract(epoch from mainspring.now())::double precision as now
from mainspring.queue q
where q.name = %(queue)s::text
for no key update of q
