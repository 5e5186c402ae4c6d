-- Move partitions of a source: to an offset, or to where it is said in words, which their readers find out. Locks the rows in their
-- order. Whoever reads one finds another offset, and begins anew.
with found as (
  select o.source, o.partition
  from mainspring.source_offset o
  where o.source = %(source)s::text and (%(partition)s::text is null or o.partition = %(partition)s::text)
  order by o.partition
  for no key update
)
update mainspring.source_offset o
set next = coalesce(%(next)s::bigint, o.next), start = %(start)s::text
from found f
where o.source = f.source and o.partition = f.partition
returning o.partition
