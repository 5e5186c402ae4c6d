-- Which of these processes are open: those that lock_processes left out will be free soon. Rides the primary key.
select i.id::text
from unnest(%(ids)s::text::uuid[]) as i(id)
where exists (select from mainspring.process p where p.id = i.id and p.state = 'open')
