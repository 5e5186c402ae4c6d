-- Events of a kind that nobody waits for any more.
delete from mainspring.event e
where e.kind = %(kind)s::text
  and not exists (
    select
    from mainspring.consumer c
    join mainspring.delivery d on d.shard = e.shard and d.kind = e.kind and d.consumer = c.name and d.key = e.key
      and d.number = e.number
    where c.kind = e.kind)
