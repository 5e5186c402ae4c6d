-- Actors that are served from elsewhere, those of these names that code has declared: policy, whether it is paused, whether
-- workers serve it themselves, whether a limit must be kept, whether something waits that is due, and the time. Locks nothing.
-- Rides visit_due, a level at a time.
select q.name, q.policy::text, q.paused_at is not null and (q.paused_until is null or q.paused_until > mainspring.now())
    or exists (select from mainspring.breaker b where b.queue = q.name and b.grp = '' and b.until > mainspring.now()) as paused,
  q.kind <> 'remote' as served,
  q.concurrency is not null or q.rate is not null as limited, q.searchable,
  exists (
    select from generate_series(0, 9) as level(priority)
    cross join lateral (
      select from mainspring.visit v
      where v.queue = q.name and v.priority = level.priority and v.pass is null and v.parked_at is null and v.due_at <= mainspring.now()
      limit 1
    ) v
  ) as has_due,
  extract(epoch from mainspring.now())::double precision as now
from mainspring.queue q
where q.name = any(%(queues)s::text[])
