-- How a task stands in the line of its lock. Rides process_lock_once.
select name, held_at is not null as is_held, is_ending
from mainspring.process_lock_live
where task = %(task)s::uuid
