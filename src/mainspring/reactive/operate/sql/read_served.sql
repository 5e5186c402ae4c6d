-- Whether anybody does the work of a reactive task: workers that schedule (and in which pool they would have to be), workers that
-- run the firings of its pool. `left_why`: what a worker said that did not start its firing; `carried`:
-- whether a living process has the release that declares it, or a later one. Rides the primary keys.
select t.pool, coalesce(q.pool, t.pool) as scheduler_pool,
  exists (select from mainspring.worker w where 'mainspring.change' = any(w.queues)) as scheduled,
  exists (select from mainspring.worker w where w.pool = t.pool) as run,
  (select v.error from mainspring.visit v
    where v.key = t.task and v.queue = 'mainspring.run.' || t.pool and v.error is not null
      and t.run is null and t.admitted_at is not null) as left_why,
  exists (
    select from mainspring.reactive_instance n join mainspring.reactive_release r on r.number = n.release
    where n.release >= t.release and t.task = any(r.tasks)
      and n.seen_at > mainspring.clock() - make_interval(secs => %(living)s::double precision)) as carried
from mainspring.reactive_task t
left join mainspring.queue q on q.name = 'mainspring.change'
where t.task = %(task)s::text
