-- How many kept events of a kind there are after a number and up to one, counted up to a limit. Locks nothing.
-- Rides event_kept_number of each day.
select count(*) as events
from (
  select from mainspring.event_kept k
  where k.kind = %(kind)s::text and k.number > %(after)s::bigint and k.number <= %(until)s::bigint
  limit %(most)s::integer
) k
