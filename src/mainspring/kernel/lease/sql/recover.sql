-- Free held visits whose holder was seen dead, or whose work timeout was seen passed. A death is counted (and parks the
-- visit at the queue's limit) where the run can have caused it (note_death.sql), together with earlier ones unless the run
-- had lasted for an hour since; a work timeout in a column of its own. The version stays: the overtaken run's result is
-- still as good as any; but where only the newest run's counts (accept = last) it is a new one.
-- What was overtaken goes behind all that is due: as many that hang as there are slots would else be first for ever.
-- Compares the pass that was seen: since then the visit may be held by another, whose row this snapshot may not show.
-- Counts them by queue and minute. Locks and re-checks the visit rows, skips locked ones; then the deaths (so nobody takes
-- one back meanwhile), then counters in the order of their keys.
-- What was called off is not parked: the caller ends it in the same transaction (end_called_off).
-- Answers what was freed, and the payloads of those that are parked: layers act on them in this transaction (Layer.parked).
with lost as materialized (
  select v.shard, v.key, v.queue, v.id, v.holder, v.started_at, v.crashes, v.called_off, v.pass = any(%(orphaned)s::bigint[]) as orphaned
  from mainspring.visit v
  where v.pass is not null
    and v.shard = any(%(shards)s::integer[])
    and (v.pass = any(%(orphaned)s::bigint[])
      or (v.pass = any(%(overdue)s::bigint[]) and v.held_until < mainspring.now()))
  order by v.shard, v.key, v.queue
  for update of v skip locked
),
verdict as materialized (
  select worker_id, beat_at, blames_since
  from mainspring.death
  where worker_id in (select holder from lost where orphaned)
  for share
),
judged as (
  select l.*, l.orphaned and coalesce(l.started_at > d.blames_since, true) as blamed, d.worker_id is not null as noted,
    case when coalesce(d.beat_at, mainspring.now()) - l.started_at > interval '1 hour' then 0 else l.crashes end as before
  from lost l
  left join verdict d on d.worker_id = l.holder
),
freed as (
  update mainspring.visit v
  set version = case when q.policy ->> 'accept' = 'last' then mainspring.token() else v.version end,
    pass = null, holder = null, started_at = null, held_until = null,
    due_at = case when l.orphaned then v.due_at else greatest(v.due_at, mainspring.now()) end,
    crashes = case when l.blamed then least(l.before, 2147483646) + 1 else v.crashes end,
    work_timeouts = least(v.work_timeouts, 2147483646) + case when l.orphaned then 0 else 1 end,
    parked_at = case when l.blamed and l.called_off is null and least(l.before, 2147483646) + 1 >= coalesce(q.crash_limit, 3) then mainspring.now() end,
    error = case when l.blamed then 'the worker that ran it died (' || (least(l.before, 2147483646) + 1) || ' of ' || coalesce(q.crash_limit, 3)
      || '): ' || l.holder else v.error end,
    changed_at = mainspring.now()
  from judged l
  left join mainspring.queue q on q.name = l.queue
  where v.shard = l.shard and v.key = l.key and v.queue = l.queue
  returning v.shard, v.key, v.queue, v.crashes, l.orphaned, v.parked_at is not null as parked, v.due_at, v.payload,
    v.called_off is not null as called_off
),
blames as (
  insert into mainspring.blame (worker_id, shard, key, queue, id)
  select holder, shard, key, queue, id from judged where blamed and noted
  on conflict do nothing
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
  select mainspring.wake(queue, min(due_at)) from freed group by queue
)
select shard, key, queue, crashes, orphaned, parked, case when parked then payload::text end as payload, called_off,
  (select count(*) from hint) as hints
from freed
