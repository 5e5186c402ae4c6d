-- How a process stands: the outcome of its root and, while that is open, the first of its parked tasks. Rides the primary
-- keys and parked_task_of_process.
select p.state::text, r.outcome::text, r.result::text, r.error::text, k.actor as parked, k.error_type as parked_type,
  k.error as parked_error
from mainspring.process p
left join mainspring.task r on r.process_id = p.id and r.id = p.root
left join lateral (
  select k.actor, k.error_type, k.error
  from mainspring.parked_task k
  where k.process_id = p.id and r.outcome is null
  order by k.parked_at, k.task
  limit 1
) k on true
where p.id = %(id)s::uuid
