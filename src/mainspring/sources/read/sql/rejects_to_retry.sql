-- Records that were put aside and are to be mapped again, some of them, in their order. Rides the primary key.
select partition, number, topic, key, value, headers, happened_ms
from mainspring.source_reject
where source = %(source)s::text and retry_at is not null
order by partition, number
limit %(limit)s::integer
