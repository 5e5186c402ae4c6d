-- The inputs of a race that are closed, the first to close first, each with its place. At most so many, or (null) all.
-- Rides edge_of_task.
select e.pos, p.outcome::text, p.result::text, p.error::text
from mainspring.edge e
join mainspring.task p on p.process_id = e.process_id and p.id = e.promise
where e.process_id = %(process_id)s::uuid and e.task = %(task)s::uuid and p.outcome is not null
order by p.outcome_no
limit %(limit)s::integer
