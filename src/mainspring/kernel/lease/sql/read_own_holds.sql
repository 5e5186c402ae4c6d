-- What this worker holds, in any shard, and whether its work timeout has passed. Rides visit_held.
select pass as run, coalesce(held_until < mainspring.now(), false) as overdue
from mainspring.visit where pass is not null and holder = %(worker_id)s::uuid
