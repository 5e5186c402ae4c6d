-- Runs of these queues and groups have succeeded. What was counted is forgotten; a breaker that is being tried lets twice as many run after
-- each, and is closed when that is all that the queue allows. One that is open does not hear of runs that began before. Tells the workers of
-- what has changed for them. Locks the rows in their order; rides the primary key.
with given as (
  select g.queue, g.grp, 2 ^ least(g.count, 20) as times, to_timestamp(g.began) as began
  from unnest(%(queues)s::text[], %(groups)s::text[], %(counts)s::text::integer[], %(began)s::text::double precision[])
    as g(queue, grp, count, began)
),
before as (
  select b.queue, b.grp, b.opened_at is not null as was_open, g.times * b.at_once as at_once,
    b.opened_at is null or g.times * b.at_once >= least(%(trusted)s::integer, case when b.grp = '' then q.concurrency else q.group_concurrency end)
      as closes
  from mainspring.breaker b
  join given g on g.queue = b.queue and g.grp = b.grp
  join mainspring.queue q on q.name = b.queue
  where b.opened_at is null or b.until <= mainspring.now() and g.began >= b.until - interval '50 milliseconds'
  order by b.queue, b.grp
  for update of b
),
closed as (
  delete from mainspring.breaker b using before o where o.closes and b.queue = o.queue and b.grp = o.grp
),
grown as (
  update mainspring.breaker b set at_once = o.at_once
  from before o where not o.closes and b.queue = o.queue and b.grp = o.grp
)
select pg_notify('mainspring', 'settings') from before where was_open limit 1
