-- The queues in which runs of a reactive task may be in history (it may have moved from pool to pool);
-- none if no reactive task has that name.
select q.name as queue
from mainspring.queue q
where q.kind = 'reactive' and starts_with(q.name, 'mainspring.run.')
  and exists (select from mainspring.reactive_task t where t.task = %(task)s::text)
order by q.name
