-- Evaluations of a task whose outcome differed from the one before, newest first. Rides evaluation_pkey.
select id, task, at, verdict, fired, leaves::text as leaves, cause
from mainspring.evaluation
where task = %(task)s::text and id < %(before)s::bigint
order by task, id desc
limit %(most)s::integer
