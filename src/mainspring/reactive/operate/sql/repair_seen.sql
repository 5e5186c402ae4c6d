-- Repair what a task has seen of a param (R13): move it to a value (with the param's rewinds of now), or delete it. In flight it
-- is noted besides, so that the success of the running firing does not undo it. A new turn. Locks the task's row, after which
-- nobody else ends its run. No row: no such task.
update mainspring.reactive_task t
set seen = case when %(value)s::text is null then t.seen - %(param)s::text
    else t.seen || jsonb_build_object(%(param)s::text, jsonb_build_array(%(value)s::text::jsonb, p.rewinds)) end,
  repair = case when t.firing is not null then coalesce(t.repair, '{}') || jsonb_build_object(%(param)s::text,
    case when %(value)s::text is null then null else jsonb_build_array(%(value)s::text::jsonb, p.rewinds) end) end,
  seen_run = mainspring.token(), turn = mainspring.token()
from mainspring.param p
where t.task = %(task)s::text and p.name = %(param)s::text
returning t.task, t.firing is not null as in_flight
