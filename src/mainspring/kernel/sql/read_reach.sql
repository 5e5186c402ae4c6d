-- How far some workers had read, by level. For takers: what is at or before this, a dead worker may have been running.
select worker_id, queue, priority, max(due_at) as due_at
from mainspring.reach
where worker_id = any(%(worker_ids)s::uuid[])
group by worker_id, queue, priority
