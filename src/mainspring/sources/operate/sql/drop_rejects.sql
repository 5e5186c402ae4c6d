-- Forget records that were put aside. Locks the rows in their order.
with found as (
  select r.source, r.partition, r.number
  from mainspring.source_reject r
  where r.source = %(source)s::text and (%(partition)s::text is null or r.partition = %(partition)s::text)
    and (%(number)s::bigint is null or r.number = %(number)s::bigint)
  order by r.partition, r.number
  for update
)
delete from mainspring.source_reject r using found f
where r.source = f.source and r.partition = f.partition and r.number = f.number
returning r.number
