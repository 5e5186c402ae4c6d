-- How many visits of a relay's queue wait, counted up to a limit. Locks nothing. Rides visit_due.
select count(*) as waiting
from (
  select from generate_series(0, 9) as p(priority)
  join mainspring.visit v on v.queue = %(queue)s::text and v.priority = p.priority and v.pass is null and v.parked_at is null
  limit %(most)s::integer
) v
