-- What recovery counted since a time, by actor and name. Reads the counters of that time.
select actor, name, sum(n)::bigint as n
from mainspring.counter
where minute >= date_trunc('minute', coalesce(%(since)s::timestamptz, mainspring.now() - %(span)s::interval)) and (%(actor)s::text is null or actor = %(actor)s::text)
group by actor, name
order by actor, name
