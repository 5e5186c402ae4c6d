-- What readers of quiet partitions do now and then: say the broker's end, and see whether they may go on. One that reads on still has
-- its offset, which nobody wants elsewhere, and its queue is not paused. Locks the rows in their order.
with given as (
  select i.n, i.source, i.partition, i.next, i.known_end
  from unnest(%(sources)s::text[], %(partitions)s::text[], %(nexts)s::bigint[], %(ends)s::bigint[]) with ordinality
    as i(source, partition, next, known_end, n)
),
mine as (
  select o.source, o.partition, g.n, g.known_end
  from mainspring.source_offset o
  join given g on g.source = o.source and g.partition = o.partition
  where o.next = g.next and o.start is null
  order by o.source, o.partition
  for no key update of o
),
looked as (
  update mainspring.source_offset o
  set looked_at = mainspring.now(), known_end = coalesce(m.known_end, o.known_end)
  from mine m
  where o.source = m.source and o.partition = m.partition
)
select g.n, exists (select from mine m where m.n = g.n)
  and not exists (select from mainspring.queue q where q.name = 'source/' || g.source and
    q.paused_at is not null and (q.paused_until is null or q.paused_until > mainspring.now())) as goes_on
from given g
