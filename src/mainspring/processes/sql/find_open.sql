-- Which of these processes are open: those that lock_processes left out will be free soon. Rides the primary key.
select id::text
from mainspring.process
where id = any(%(ids)s::uuid[]) and state = 'open'
