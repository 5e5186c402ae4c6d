-- What goes on in a kind: how many visits of its crawl lane wait (counted up to a limit), and for how long the oldest
-- live visit that could run has been due. Queues of stages, and live ones, that are paused or not served (a stage that no
-- code has any more) do not count: they wait for reasons of their own. Locks nothing. Rides visit_due: one look a queue
-- and priority.
with queue as (
  select q.name, right(q.name, 1) = '~' as crawls
  from mainspring.queue q
  where (q.name in (%(kind)s::text, %(kind)s::text || '~') or starts_with(q.name, %(kind)s::text || '/'))
    and (q.name = %(kind)s::text || '~'
      or (q.paused_at is null or q.paused_until <= mainspring.now()) and exists (select from mainspring.worker w where w.queues @> array[q.name]::text[]))
),
level as (
  select q.name, q.crawls, p.priority from queue q cross join generate_series(0, 9) as p(priority)
)
select
  (select count(*) from (
    select from level l
    join mainspring.visit v on v.queue = l.name and v.priority = l.priority and v.pass is null and v.parked_at is null
    where l.crawls and v.due_at <= mainspring.now()
    limit %(most)s::integer) w)::integer as waiting,
  coalesce((
    select extract(epoch from mainspring.now() - min(d.due_at))::double precision
    from level l
    cross join lateral (
      select v.due_at from mainspring.visit v
      where v.queue = l.name and v.priority = l.priority and v.pass is null and v.parked_at is null
        and v.due_at <= mainspring.now()
      order by v.due_at limit 1) d
    where not l.crawls), 0) as lag_seconds
