-- Lock the states of ending runs, by name, skipping those that others have locked. A run that is not answered is locked, or
-- its firing is over. Answers the address of each row, which cannot move until the end is written. Rides reactive_task_by_name.
select t.task, t.ctid::text as address
from unnest(%(tasks)s::text[], %(firings)s::bigint[], %(runs)s::bigint[]) as i(task, firing, run)
join mainspring.reactive_task t on t.task = i.task
where t.firing = i.firing and t.run = i.run
order by t.task
for update of t skip locked
