-- Tasks whose recorded success is overdue become missed, once. Answers when each was due, and when to look again. Tasks without
-- an expectation, paused and retired ones are not answered. Rides the primary key.
with looked as (
  select t.task, t.missed_at, t.expect_within, mainspring.clock() as now,
    greatest(t.succeeded_at, t.expected_from) + t.expect_within as due_at
  from mainspring.reactive_task t
  where t.task = any(%(tasks)s::text[]) and t.expect_within is not null and t.paused_at is null and t.retired_at is null
),
missed as (
  update mainspring.reactive_task t
  set missed_at = l.now
  from looked l
  where t.task = l.task and l.due_at <= l.now and t.missed_at is null
    and greatest(t.succeeded_at, t.expected_from) + t.expect_within <= l.now
  returning t.task
)
select l.task, l.due_at, l.task in (select task from missed) as newly_missed,
  case when l.due_at <= l.now then l.now + l.expect_within else l.due_at end as again_at
from looked l
