-- The live visit of a call of a task. Steps of processes and visits of the engine are none. Rides the primary key.
select v.shard
from mainspring.visit v
join mainspring.queue q on q.name = v.queue and q.kind in ('task', 'remote') and not starts_with(q.name, 'mainspring.')
where v.queue = %(task)s::text and v.key = %(key)s::text and v.id = %(id)s::uuid and not v.payload ? '@'
