-- All queues with what lies in them; also names that visits have and no code declared. Locks nothing.
-- Reads every visit once. Lag is how long the oldest visit that could run has been due.
with load as (
  select v.queue,
    count(*) filter (where v.parked_at is null and v.pass is null and v.due_at <= mainspring.now()) as waiting,
    count(*) filter (where v.parked_at is null and v.pass is null and v.due_at > mainspring.now()) as scheduled,
    count(*) filter (where v.pass is not null) as running,
    count(*) filter (where v.parked_at is not null) as parked,
    min(v.due_at) filter (where v.parked_at is null and v.pass is null) as oldest_due_at
  from mainspring.visit v
  group by v.queue
)
select coalesce(q.name, l.queue) as name, q.pool, q.kind, q.concurrency, q.rate, q.group_concurrency, q.group_rate, q.searchable,
  q.paused_at, q.name is not null as known,
  (select count(*) from mainspring.worker w where w.queues @> array[coalesce(q.name, l.queue)]::text[]) as workers,
  coalesce(l.waiting, 0) as waiting, coalesce(l.scheduled, 0) as scheduled, coalesce(l.running, 0) as running,
  coalesce(l.parked, 0) as parked,
  case when l.waiting > 0 then greatest(0, extract(epoch from mainspring.now() - l.oldest_due_at))::double precision else 0 end
    as lag_seconds
from mainspring.queue q
full join load l on l.queue = q.name
where %(name)s::text is null or coalesce(q.name, l.queue) = %(name)s::text
order by 1
