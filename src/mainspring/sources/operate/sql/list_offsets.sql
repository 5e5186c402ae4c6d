-- Partitions of sources, with their visits, up to a number of them in their order after a place. Rides the primary keys.
select o.source, o.partition, o.next, o.start, o.known_end, greatest(o.known_end - o.next, 0) as lag,
  case
    when v.key is null then 'unread'
    when v.parked_at is not null then 'stopped'
    when q.paused_at is not null and (q.paused_until is null or q.paused_until > mainspring.now()) then 'paused'
    when v.pass is not null then 'reading'
    else 'waiting'
  end as state,
  coalesce(v.parked_at, v.changed_at) as since, v.error, o.looked_at, o.moved_at,
  (select count(*) from (select from mainspring.source_reject r
    where r.source = o.source and r.partition = o.partition limit 10001) r) as rejects, v.shard
from mainspring.source_offset o
left join mainspring.queue q on q.name = 'source/' || o.source
left join mainspring.visit v on v.shard = mainspring.shard(o.partition, (select i.shard_count from mainspring.install i))
  and v.key = o.partition and v.queue = 'source/' || o.source
where (%(source)s::text is null or o.source = %(source)s::text) and (o.source, o.partition) > (%(after_source)s::text, %(after)s::text)
order by o.source, o.partition
limit %(limit)s::integer
