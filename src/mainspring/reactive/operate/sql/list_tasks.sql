-- Reactive tasks as they stand, by name. Rides the primary key.
select t.task, t.pool, t.priority, t.release,
  case
    when t.retired_at is not null then 'retired'
    when t.run is not null then 'running'
    when t.admitted_at is not null then 'admitted'
    when t.firing is not null then 'ready'
    when t.paused_at is not null then 'paused'
    when t.retry_at > mainspring.clock() then 'backing off'
    else 'waiting'
  end as state,
  t.kind, t.cause, t.fired_at, t.started_at, t.seen::text as seen, t.captured::text as captured, t.failures, t.error, t.retry_at,
  t.succeeded_at, t.ended_at, t.missed_at, t.expect_within, t.paused_at, t.retired_at, t.request::text as request,
  t.verdict, t.since, d.tree::text as tree, d.format, d.options::text as options
from mainspring.reactive_task t
join mainspring.definition d on d.fingerprint = t.fingerprint
where (%(task)s::text is null or t.task = %(task)s::text) and t.task > %(after)s::text
  and (not %(missed)s::boolean or t.missed_at is not null)
order by t.task
limit %(most)s::integer
