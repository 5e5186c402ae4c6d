-- Of these events those that nobody waits for any more are deleted. Their rows are locked by this transaction, which
-- has deleted deliveries in an earlier statement: what another consumer did before it is seen. Rides the primary keys.
delete from mainspring.event e
using unnest(%(shards)s::integer[], %(kinds)s::text[], %(keys)s::text[], %(numbers)s::bigint[]) as i(shard, kind, key, number)
where e.shard = i.shard and e.kind = i.kind and e.key = i.key and e.number = i.number
  and not exists (
    select
    from mainspring.consumer c
    join mainspring.delivery d on d.shard = e.shard and d.kind = e.kind and d.consumer = c.name and d.key = e.key
      and d.number = e.number
    where c.kind = e.kind)
