-- Those of some tasks that are parked still. Rides the primary key.
select task::text
from mainspring.parked_task
where task = any(%(tasks)s::uuid[])
