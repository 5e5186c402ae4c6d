-- Compare and set a partition's offset: the fence of its readers. Locks the row, by its primary key, until the effects are committed.
-- Answers how far it was ever read before; no row: another reads it, or an operator has moved it.
with before as (
  select o.source, o.partition, o.reached
  from mainspring.source_offset o
  where o.source = %(source)s::text and o.partition = %(partition)s::text and o.next = %(first)s::bigint and o.start is null
  for no key update
)
update mainspring.source_offset o
set next = %(next)s::bigint, reached = greatest(o.reached, %(next)s::bigint), moved_at = mainspring.now(), looked_at = mainspring.now(),
  known_end = coalesce(%(known_end)s::bigint, o.known_end)
from before b
where o.source = b.source and o.partition = b.partition
returning b.reached
