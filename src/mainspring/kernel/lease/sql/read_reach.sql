-- How far some workers had read, by level. For takers: what is at or before this, a dead worker may have been running.
-- A note's key is the greatest of its page, so of what is due at its time a little more may be suspect than was read.
select distinct on (worker_id, queue, priority) worker_id, queue, priority, due_at, key
from mainspring.reach
where worker_id = any(%(worker_ids)s::uuid[])
order by worker_id, queue, priority, due_at desc, key desc nulls first
