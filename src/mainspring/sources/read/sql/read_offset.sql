-- Where a partition stands. Rides the primary key.
select next, reached, start
from mainspring.source_offset
where source = %(source)s::text and partition = %(partition)s::text
