-- Reactive tasks in numbers, a row a pool (functions/views.sql).
select pool, tasks, ready, running, failing, missed, paused, retired, oldest_ready_seconds
from mainspring.reactive_load
order by pool
