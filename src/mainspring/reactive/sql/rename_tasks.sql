-- Move the state of tasks to their new names, unless they are in flight or the new name has a state already.
-- Rides the primary key.
update mainspring.reactive_task t
set task = i.task, turn = i.turn
from unnest(%(olds)s::text[], %(tasks)s::text[], %(turns)s::bigint[]) as i(old, task, turn)
where t.task = i.old and t.firing is null
  and not exists (select from mainspring.reactive_task n where n.task = i.task)
returning t.task
