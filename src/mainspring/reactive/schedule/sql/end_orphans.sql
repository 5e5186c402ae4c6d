-- End firings that nobody can run any more: nothing is recorded, the trigger is checked afresh. Locks reactive_task rows by name.
update mainspring.reactive_task t
set firing = null, fired_at = null, run = null, started_at = null, admitted_at = null, captured = null, repair = null, kind = null,
  record = null, base = null, kept_back_at = null, turn = mainspring.token(), verdict = null, since = null,
  error = 'interrupted: its run visit was gone', ended_at = mainspring.clock()
from unnest(%(tasks)s::text[], %(firings)s::bigint[]) as i(task, firing)
where t.task = i.task and t.firing = i.firing
returning t.task, t.pool
