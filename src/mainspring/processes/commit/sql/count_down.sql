-- Count closed inputs off, whatever the count is, and answer what it was: the caller sees who crossed zero.
-- A task that an error stops is counted to zero at once. Locks wait rows in the order of their tasks; the read that
-- locks answers the newest count. No row: the task was released before. Rides the primary key.
with locked as materialized (
  select w.task, w.n, i.k, i.failed
  from unnest(%(tasks)s::text::uuid[], %(counts)s::text::integer[], %(failed)s::text::boolean[]) as i(task, k, failed)
  join mainspring.wait w on w.task = i.task
  order by w.task
  for update of w
)
update mainspring.wait w
set n = case when l.failed then 0 else w.n - l.k end
from locked l
where w.task = l.task
returning w.task::text, w.n, l.n as was
