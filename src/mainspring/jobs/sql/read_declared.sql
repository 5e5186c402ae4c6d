-- The arguments of schedules as the code declared them last, before whatever an operator changed. Locked, in the order in which
-- they are written: who starts beside me declares what I do.
select name, (declared -> 'payload')::text as payload
from mainspring.recurring
where name = any(%(names)s::text[]) and declared is not null
order by name
for update
