-- The kinds of entities with what lies in their queues. Locks nothing. Reads every visit of their queues once.
with load as (
  select k.name,
    count(*) filter (where v.parked_at is null and v.pass is null and v.due_at <= mainspring.now()) as waiting,
    count(*) filter (where v.parked_at is null and v.pass is null and v.due_at > mainspring.now()) as scheduled,
    count(*) filter (where v.pass is not null) as running,
    count(*) filter (where v.parked_at is not null) as parked
  from mainspring.kind k
  join mainspring.visit v on v.queue in (k.name, k.name || '~') or starts_with(v.queue, k.name || '/')
    or starts_with(v.queue, k.name || '!')
  group by k.name
)
select k.name, k.source, k.pool, k.capture, k.version_column, k.generation,
  array(select s.name::text from mainspring.stage s where s.kind = k.name and s.retired_at is null order by s.name) as stages,
  array(select c.name::text from mainspring.consumer c where c.kind = k.name and c.retired_at is null order by c.name)
    as consumers,
  coalesce(l.waiting, 0) as waiting, coalesce(l.scheduled, 0) as scheduled, coalesce(l.running, 0) as running,
  coalesce(l.parked, 0) as parked,
  (select o.id from mainspring.operation o
    where o.kind = 'crawl' and o.state in ('running', 'paused') and o.filter ->> 'kind' = k.name
    order by o.id desc limit 1) as crawl,
  k.keys
from mainspring.kind k
left join load l on l.name = k.name
where %(kind)s::text is null or k.name = %(kind)s::text
order by k.name
