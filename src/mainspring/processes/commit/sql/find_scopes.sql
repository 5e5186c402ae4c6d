-- Which of these scopes are open: a task that fails in one fails it. Rides the primary key.
select id::text
from mainspring.scope
where id = any(%(ids)s::uuid[]) and state = 'open'
