-- What this worker holds, in any shard, and whether its work timeout has passed, and whether it was called off. Rides visit_held.
select pass as run, coalesce(held_until < mainspring.now(), false) as overdue,
  called_off is not null as called_off
from mainspring.visit where pass is not null and holder = %(worker_id)s::uuid
