-- Whether anybody does the work of a reactive task: workers that schedule (and in which pool they would have to be), workers that
-- run the firings of its pool. Rides the primary keys.
select t.pool, coalesce(q.pool, t.pool) as scheduler_pool,
  exists (select from mainspring.worker w where 'mainspring.change' = any(w.queues)) as scheduled,
  exists (select from mainspring.worker w where w.pool = t.pool) as run
from mainspring.reactive_task t
left join mainspring.queue q on q.name = 'mainspring.change'
where t.task = %(task)s::text
