-- What waits for the consumers of all kinds: how many events, counted up to a limit, and when the oldest of them was saved. Locks
-- nothing. Rides the delivery's primary key, shard by shard. The oldest: of few by their events, of many along event_age. A lateral
-- limit keeps each a walk along an index: a join reads all events and all deliveries, however few are asked for.
select c.kind, c.name as consumer, w.waiting, w.waiting >= %(most)s::integer as capped,
  case when w.waiting = 0 then null
    when w.waiting <= 10000 then (
      select min(e.created_at)
      from generate_series(0, (select i.shard_count - 1 from mainspring.install i)) s(shard)
      cross join lateral (
        select d.shard, d.kind, d.key, d.number from mainspring.delivery d
        where d.shard = s.shard and d.kind = c.kind and d.consumer = c.name
        offset 0) d
      cross join lateral (
        select e.created_at from mainspring.event e
        where e.shard = d.shard and e.kind = d.kind and e.key = d.key and e.number = d.number
        limit 1) e)
    else (
      select e.created_at
      from mainspring.event e
      cross join lateral (
        select from mainspring.delivery d
        where d.shard = e.shard and d.kind = e.kind and d.consumer = c.name and d.key = e.key and d.number = e.number
        limit 1) d
      where e.kind = c.kind
      order by e.created_at limit 1)
  end as oldest_at
from mainspring.consumer c
cross join lateral (
  select count(*) as waiting
  from (
    select from generate_series(0, (select i.shard_count - 1 from mainspring.install i)) s(shard)
    join mainspring.delivery d on d.shard = s.shard and d.kind = c.kind and d.consumer = c.name
    limit %(most)s::integer) d
) w
where c.retired_at is null
order by c.kind, c.name
