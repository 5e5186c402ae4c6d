-- Of these tasks those that the database has otherwise than they are declared here: by another release, or retired.
-- Locks nothing. Rides the primary key.
select t.task
from unnest(%(tasks)s::text[], %(declared)s::text[]) as i(task, declared)
join mainspring.reactive_task t on t.task = i.task
where t.declared <> i.declared or t.retired_at is not null
order by t.task
