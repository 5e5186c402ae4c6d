-- What is broken in a process.
select rule, detail, task::text
from mainspring.process_violation
where process_id = %(id)s::uuid
order by rule, detail, task
