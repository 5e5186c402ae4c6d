-- The first events of entities that wait for their consumers, in order. Locks nothing. Rides the primary keys.
-- Per entity numbers rise in the order of commits, so none is still to come before one that is seen.
select i.n::integer as n, e.number, e.stage, e.what, e.entity_version, e.state_version, e.body::text as body,
  e.created_at, e.what = 'state' and e.run is null as outside, d.replay
from unnest(%(shards)s::integer[], %(kinds)s::text[], %(consumers)s::text[], %(keys)s::text[])
  with ordinality as i(shard, kind, consumer, key, n)
cross join lateral (
  select d.number, d.replay
  from mainspring.delivery d
  where d.shard = i.shard and d.kind = i.kind and d.consumer = i.consumer and d.key = i.key
  order by d.number
  limit %(most)s::integer
) d
join mainspring.event e on e.shard = i.shard and e.kind = i.kind and e.key = i.key and e.number = d.number
order by i.n, d.number
