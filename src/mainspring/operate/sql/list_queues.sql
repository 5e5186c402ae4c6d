-- Queues with what lies in them (all, or the one named); also names that visits have and no code declared. Locks nothing.
-- Counting stops: at `most` visits over all, shared evenly by the levels (a queue and a priority) that have some; null counts
-- all. `capped` names the counts that stopped. Levels are found by steps down visit_due and visit_parked, counts ride them too;
-- runs are few (visit_held). Lag is how long the oldest visit that could run has been due.
with recursive level(queue, priority) as (
  (
    select v.queue, v.priority
    from mainspring.visit v
    where v.pass is null and v.parked_at is null and v.queue >= coalesce(%(name)s::text, '')
    order by v.queue, v.priority
    limit 1
  )
  union all
  select n.queue, n.priority
  from level l
  cross join lateral (
    select v.queue, v.priority
    from mainspring.visit v
    where v.pass is null and v.parked_at is null and (v.queue, v.priority) > (l.queue, l.priority)
    order by v.queue, v.priority
    limit 1
  ) n
  where %(name)s::text is null or n.queue <= %(name)s::text
),
parking(queue) as (
  (
    select v.queue from mainspring.visit v where v.parked_at is not null and v.queue >= coalesce(%(name)s::text, '')
    order by v.queue limit 1
  )
  union all
  select n.queue
  from parking p
  cross join lateral (
    select v.queue from mainspring.visit v where v.parked_at is not null and v.queue > p.queue order by v.queue limit 1
  ) n
  where %(name)s::text is null or n.queue <= %(name)s::text
),
bound as (
  select case when m.most is not null then greatest(100, m.most / (select greatest(1, count(*)) from level)) end as levels,
    case when m.most is not null then greatest(100, m.most / (select greatest(1, count(*)) from parking)) end as parked
  from (select %(most)s::bigint as most) m
),
free as (
  select l.queue, sum(w.count) as waiting, sum(s.count) as scheduled, min(w.oldest) as oldest_due_at,
    coalesce(bool_or(w.count = b.levels), false) as waiting_capped, coalesce(bool_or(s.count = b.levels), false) as scheduled_capped
  from level l
  cross join bound b
  cross join lateral (
    select count(*), min(v.due_at) as oldest
    from (
      select v.due_at
      from mainspring.visit v
      where v.queue = l.queue and v.priority = l.priority and v.pass is null and v.parked_at is null and v.due_at <= mainspring.now()
      order by v.due_at
      limit b.levels
    ) v
  ) w
  cross join lateral (
    select count(*)
    from (
      select
      from mainspring.visit v
      where v.queue = l.queue and v.priority = l.priority and v.pass is null and v.parked_at is null and v.due_at > mainspring.now()
      order by v.due_at
      limit b.levels
    ) v
  ) s
  group by l.queue
),
parked as (
  select p.queue, c.count, coalesce(c.count = b.parked, false) as capped
  from parking p
  cross join bound b
  cross join lateral (
    select count(*)
    from (select from mainspring.visit v where v.queue = p.queue and v.parked_at is not null order by v.parked_at limit b.parked) v
  ) c
),
held as (
  select v.queue, count(*) as count from mainspring.visit v where v.pass is not null group by v.queue
),
served as (
  select s.queue, count(*) as count from mainspring.worker w cross join unnest(w.queues) as s(queue) group by s.queue
),
name as (
  select q.name from mainspring.queue q
  union select queue from free union select queue from parked union select queue from held
)
select n.name, q.pool, q.kind, q.concurrency, q.rate, q.group_concurrency, q.group_rate, q.burst, q.group_burst, q.breaker_failures, q.breaker_pause, q.searchable,
  q.waiting_max, q.is_full, p.since as paused_at, p.until as paused_until, p.reason as pause_reason, q.name is not null as known, coalesce(s.count, 0) as workers,
  coalesce(f.waiting, 0)::bigint as waiting, coalesce(f.scheduled, 0)::bigint as scheduled, coalesce(h.count, 0) as running,
  coalesce(k.count, 0) as parked,
  case when f.waiting > 0 then greatest(0, extract(epoch from mainspring.now() - f.oldest_due_at))::double precision else 0 end
    as lag_seconds,
  array_remove(array[case when f.waiting_capped then 'waiting' end, case when f.scheduled_capped then 'scheduled' end,
    case when k.capped then 'parked' end], null) as capped
from name n
left join mainspring.queue q on q.name = n.name
left join free f on f.queue = n.name
left join parked k on k.queue = n.name
left join lateral (
  select q.paused_at as since, q.paused_until as until, q.pause_reason as reason
  where q.paused_at is not null and (q.paused_until is null or q.paused_until > mainspring.now())
) p on true
left join held h on h.queue = n.name
left join served s on s.queue = n.name
where %(name)s::text is null or n.name = %(name)s::text
order by n.name
