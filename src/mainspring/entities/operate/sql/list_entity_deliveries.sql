-- How many events of an entity wait for each consumer, and the first of them. Rides the primary keys.
select c.name as consumer, count(*)::integer as events, min(d.number) as first
from mainspring.consumer c
join mainspring.delivery d on d.shard = mainspring.shard(%(key)s::text, (select shard_count from mainspring.install))
  and d.kind = c.kind and d.consumer = c.name and d.key = %(key)s::text
where c.kind = %(kind)s::text
group by c.name
order by c.name
