-- Put records aside. One that is there already, of a time before, is replaced.
insert into mainspring.source_reject (source, partition, number, topic, key, value, headers, happened_ms, error_type, error)
select %(source)s::text, i.partition, i.number, i.topic, i.key, i.value, i.headers, i.happened_ms, i.error_type, i.error
from unnest(%(partitions)s::text[], %(numbers)s::bigint[], %(topics)s::text[], %(keys)s::bytea[], %(contents)s::bytea[],
  %(headers)s::bytea[], %(happened)s::bigint[], %(error_types)s::text[], %(errors)s::text[])
  as i(partition, number, topic, key, value, headers, happened_ms, error_type, error)
on conflict (source, partition, number) do update
set topic = excluded.topic, key = excluded.key, value = excluded.value, headers = excluded.headers,
  happened_ms = excluded.happened_ms, error_type = excluded.error_type, error = excluded.error,
  rejected_at = excluded.rejected_at, retry_at = null
