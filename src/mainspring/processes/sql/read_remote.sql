-- The policy of an actor that is served from elsewhere, whether it is paused, how many more runs its limits allow, whether
-- workers serve it themselves, and the time. Locks nothing: who takes up room has locked the queue by a statement before this
-- one, which may have waited for others. No row: no code has declared it.
-- Of its rate, what was handed out within the last second counts (or since one was due, if that is longer): it is in work,
-- or it has ended and history has it. Rides history_time.
select q.policy::text, q.paused_at is not null as paused,
  least(
    q.concurrency - (select count(*) from mainspring.visit v where v.queue = q.name and v.pass is not null),
    case when q.rate is not null then floor(q.rate * w.seconds + 1e-9)
      - (select count(*) from mainspring.visit v where v.queue = q.name and v.pass is not null and v.started_at > w.since)
      - (select count(*) from mainspring.history h where h.queue = q.name and h.ended_at > w.since and h.started_at > w.since)
    end
  )::integer as room,
  exists (select from mainspring.worker w where w.queues @> array[q.name]::text[]) as served,
  extract(epoch from mainspring.now())::double precision as now
from mainspring.queue q
cross join lateral (select greatest(1, 1 / nullif(q.rate, 0)) as seconds) s
cross join lateral (select s.seconds, mainspring.now() - make_interval(secs => s.seconds) as since) w
where q.name = %(queue)s::text
