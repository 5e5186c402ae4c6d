-- Deliveries that their consumers have acknowledged are over. Locks the events first, in order, so that of two
-- consumers that acknowledge the last deliveries of an event at once the second sees that it is the last
-- (forget_events runs after this). Sent twice, it changes nothing more. Rides the primary keys.
with item as materialized (
  select i.shard, i.kind, i.key, i.consumer, i.number
  from unnest(%(shards)s::integer[], %(kinds)s::text[], %(keys)s::text[], %(consumers)s::text[], %(numbers)s::bigint[])
    as i(shard, kind, key, consumer, number)
),
event as materialized (
  select e.number
  from mainspring.event e
  join item i on e.shard = i.shard and e.kind = i.kind and e.key = i.key and e.number = i.number
  order by e.shard, e.kind, e.key, e.number
  for update of e
)
delete from mainspring.delivery d
using item i
where d.shard = i.shard and d.kind = i.kind and d.consumer = i.consumer and d.key = i.key and d.number = i.number
  and (select count(*) from event) >= 0
