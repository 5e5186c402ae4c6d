-- Lock processes in the shared mode of decisions, in the order of their ids, and skip those that a structural change
-- has or asks for. What is not answered is not open, or to be tried again soon. Rides the primary key.
select p.id::text, p.root::text, p.root_closed, mainspring.now() as now, p.type, p.engine
from mainspring.process p
where p.id = any(%(ids)s::uuid[])
  and p.state = 'open'
  and (p.closing_at is null or p.closing_at < mainspring.now() - interval '5 seconds')
order by p.id
for key share skip locked
