-- Numbers of kept events of a kind after one and up to one, in order. Locks nothing. Rides event_kept_number of each day.
select k.number
from mainspring.event_kept k
where k.kind = %(kind)s::text and k.number > %(after)s::bigint and k.number <= %(until)s::bigint
order by k.number
limit %(most)s::integer
