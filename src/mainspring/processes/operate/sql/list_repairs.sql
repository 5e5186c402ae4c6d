-- Repairs of processes, newest first. Rides the primary key.
select process_id::text, task::text, rule, detail, source, repaired_at
from mainspring.repair
order by id desc
limit %(limit)s::integer
