-- The signals of processes that nobody has taken, oldest first. Locks nothing. Rides the primary key.
select process_id::text, name, id, payload::text, no, again
from mainspring.signal
where process_id = any(%(ids)s::uuid[]) and taken_by is null
order by no
