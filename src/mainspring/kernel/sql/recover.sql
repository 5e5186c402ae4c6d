-- Free held visits whose holder was seen dead, or whose work timeout was seen passed. A death is counted (and parks the
-- visit at the queue's limit), a work timeout in a column of its own. The version stays: the overtaken run's result is
-- still as good as any; but where only the newest run's counts (accept = last) it is a new one.
-- What was overtaken goes behind all that is due: as many that hang as there are slots would else be first for ever.
-- Compares the pass that was seen: since then the visit may be held by another, whose row this snapshot may not show.
-- A process learns at once of a task of its own that is parked so: its look is due, as if it were offered.
-- Counts them by queue and minute. Locks and re-checks the visit rows, skips locked ones; then the looks, then counters in
-- the order of their keys. Answers what was freed.
with lost as materialized (
  select v.shard, v.key, v.queue, v.holder, v.pass = any(%(orphaned)s::bigint[]) as orphaned
  from mainspring.visit v
  where v.pass is not null
    and v.shard = any(%(shards)s::integer[])
    and (v.pass = any(%(orphaned)s::bigint[])
      or (v.pass = any(%(overdue)s::bigint[]) and v.held_until < mainspring.now()))
  order by v.shard, v.key, v.queue
  for update of v skip locked
),
freed as (
  update mainspring.visit v
  set version = case when q.policy ->> 'accept' = 'last' then mainspring.token() else v.version end,
    pass = null, holder = null, started_at = null, held_until = null,
    due_at = case when l.orphaned then v.due_at else greatest(v.due_at, mainspring.now()) end,
    crashes = v.crashes + case when l.orphaned then 1 else 0 end,
    work_timeouts = v.work_timeouts + case when l.orphaned then 0 else 1 end,
    parked_at = case when l.orphaned and v.crashes + 1 >= coalesce(q.crash_limit, 3) then mainspring.now() end,
    error = case when l.orphaned then 'the worker that ran it died (' || (v.crashes + 1) || ' of ' || coalesce(q.crash_limit, 3)
      || '): ' || l.holder else v.error end,
    changed_at = mainspring.now()
  from lost l
  left join mainspring.queue q on q.name = l.queue
  where v.shard = l.shard and v.key = l.key and v.queue = l.queue
  returning v.shard, v.key, v.queue, v.crashes, l.orphaned, v.parked_at is not null as parked, v.due_at, v.payload
),
due_look as materialized (  -- one at a time along the primary key: a join might read all that waits
  select v.address
  from (select distinct f.payload ->> '@' as process_id from freed f where f.parked and f.payload ? '@') p
  cross join lateral (
    select ctid as address from mainspring.visit
    where key = 'look/' || p.process_id and starts_with(queue, 'mainspring.process')
    for update
  ) v
),
looks as (
  update mainspring.visit v
  set version = mainspring.token(), due_at = least(v.due_at, mainspring.now()), changed_at = mainspring.now()
  from due_look l
  where v.ctid = l.address
  returning v.queue, v.due_at
),
counted as (
  insert into mainspring.counter as c (actor, name, minute, n)
  select queue, case when orphaned then 'worker_death' else 'work_timeout' end, date_trunc('minute', mainspring.now()), count(*)
  from freed
  group by 1, 2
  order by 1, 2
  on conflict (actor, name, minute) do update set n = c.n + excluded.n
),
hint as materialized (
  select mainspring.wake(queue, min(due_at))
  from (select queue, due_at from freed union all select queue, due_at from looks) w
  group by queue
)
select shard, key, queue, crashes, orphaned, parked, (select count(*) from hint) as hints
from freed
