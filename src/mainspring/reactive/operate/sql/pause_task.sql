-- Pause a task, or let it go on: a new turn either way. A firing that waits is not called off. Locks the task's row.
-- No row: no such task, or nothing to change.
update mainspring.reactive_task
set paused_at = case when %(paused)s::boolean then mainspring.clock() end, turn = mainspring.token(),
  expected_from = case when %(paused)s::boolean then expected_from else mainspring.clock() end
where task = %(task)s::text and (paused_at is null) = %(paused)s::boolean
returning task, expect_within is not null as expects
