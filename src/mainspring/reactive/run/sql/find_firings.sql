-- Of runs, those whose firing is still theirs, locked or not. Rides reactive_task_by_name.
select t.task
from unnest(%(tasks)s::text[], %(firings)s::bigint[], %(runs)s::bigint[]) as i(task, firing, run)
join mainspring.reactive_task t on t.task = i.task
where t.firing = i.firing and t.run = i.run
