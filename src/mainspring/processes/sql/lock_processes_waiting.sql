-- The same as lock_processes, but waits for a structural change: for a task that commits its own SQL.
select p.id::text, p.root::text, p.root_closed, mainspring.now() as now, p.type, p.engine
from mainspring.process p
where p.id = any(%(ids)s::uuid[])
  and p.state = 'open'
order by p.id
for key share
