-- Records of a source that were put aside, in their order after a place; nothing of what is in them. Rides the primary key.
select source, partition, number as "offset", topic, octet_length(value) as bytes, error_type, error, rejected_at, retry_at
from mainspring.source_reject
where source = %(source)s::text and (%(partition)s::text is null or partition = %(partition)s::text)
  and (partition, number) > (%(after)s::text, %(after_offset)s::bigint)
order by partition, number
limit %(limit)s::integer
