-- Delete documents that are there, locked in the order of their keys. Rides the primary key.
delete from mainspring.document
where kind = %(kind)s::text and key in (
  select d.key from mainspring.document d
  where d.kind = %(kind)s::text and d.key = any(%(ids)s::text[])
  order by d.key
  for update)
