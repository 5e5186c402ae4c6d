-- Tasks that no living process declares while others of their pool live: noted when first seen missing, retired after a while.
-- A retired task is not checked; its index and what it has seen are kept; a firing that waits is called off. Declared again it
-- comes back. Answers those retired now. Looks at all tasks, once a minute at most.
with living as materialized (
  select n.pool, r.tasks
  from mainspring.reactive_instance n
  join mainspring.reactive_release r on r.number = n.release
  where n.seen_at > mainspring.clock() - make_interval(secs => %(living)s::double precision)
),
declared as materialized (
  select distinct unnest(tasks) as task from living
),
back as (
  update mainspring.reactive_task t
  set missing_since = null
  where t.missing_since is not null and t.retired_at is null and t.task in (select task from declared)
),
gone as (
  select t.task
  from mainspring.reactive_task t
  where t.retired_at is null and t.run is null and t.task not in (select task from declared)
    and exists (select from living l where l.pool = t.pool)
    and (t.missing_since is null or t.missing_since <= mainspring.clock() - make_interval(secs => %(after)s::double precision))
  order by t.task
  for update of t skip locked
)
update mainspring.reactive_task t
set missing_since = coalesce(t.missing_since, mainspring.clock()),
  retired_at = case when t.missing_since is not null then mainspring.clock() end,
  turn = mainspring.token(),
  firing = case when t.missing_since is null then t.firing end,
  fired_at = case when t.missing_since is null then t.fired_at end,
  captured = case when t.missing_since is null then t.captured end,
  admitted_at = case when t.missing_since is null then t.admitted_at end,
  kind = case when t.missing_since is null then t.kind end,
  request = case when t.missing_since is null then t.request end,
  repair = case when t.missing_since is null then t.repair end
from gone g
where t.task = g.task
returning t.task, t.pool, t.retired_at is not null as retired
