-- The queues in which the engine works for processes. Rides the primary key.
select id::text, engine
from mainspring.process
where id = any(%(ids)s::uuid[])
