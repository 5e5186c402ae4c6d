-- The task timeouts (seconds) of those actors that have one. Rides the primary key.
select q.name, (q.policy ->> 'task_timeout')::double precision as seconds
from mainspring.queue q
where q.name = any(%(actors)s::text[]) and q.policy ->> 'task_timeout' is not null
