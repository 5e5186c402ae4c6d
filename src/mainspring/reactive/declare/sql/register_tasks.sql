-- Write what a release declares of tasks, unless a higher release that a living worker carries has said otherwise: so an old
-- worker that restarts during a rollout changes nothing, and a roll-back takes effect when the last new worker is gone.
-- Each begins a new turn; one that runs changes its pool later, and is answered with its former declaration until then. A firing in flight keeps the trigger and the values of its check. A retired task comes back.
-- A firing that waits is called off when its task changes its pool, and the trigger is checked afresh: the workers of the former
-- pool may have no code of it. Their visit of it comes to nothing.
-- Locks reactive_task rows in the order of the items, which is by name. Answers the tasks that were written.
insert into mainspring.reactive_task as t (task, pool, release, fingerprint, declared, priority, turn, debounce, expect_within,
  expected_from)
select i.task, i.pool, %(release)s::bigint, i.fingerprint, i.declared, i.priority, i.turn,
  make_interval(secs => i.debounce), make_interval(secs => i.expect_within), mainspring.clock()
from unnest(%(tasks)s::text[], %(pools)s::text[], %(fingerprints)s::text[], %(declared)s::text[], %(priorities)s::smallint[],
    %(turns)s::bigint[], %(debounces)s::double precision[], %(expects)s::double precision[])
  as i(task, pool, fingerprint, declared, priority, turn, debounce, expect_within)
order by i.task
on conflict (task) do update
set pool = case when t.run is null then excluded.pool else t.pool end,
  firing = case when t.run is not null or t.pool = excluded.pool then t.firing end,
  fired_at = case when t.run is not null or t.pool = excluded.pool then t.fired_at end,
  admitted_at = case when t.run is not null or t.pool = excluded.pool then t.admitted_at end,
  captured = case when t.run is not null or t.pool = excluded.pool then t.captured end,
  kind = case when t.run is not null or t.pool = excluded.pool then t.kind end,
  record = case when t.run is not null or t.pool = excluded.pool then t.record end,
  base = case when t.run is not null or t.pool = excluded.pool then t.base end,
  kept_back_at = case when t.run is not null or t.pool = excluded.pool then t.kept_back_at end,
  release = excluded.release, fingerprint = excluded.fingerprint,
  declared = case when t.run is null or t.pool = excluded.pool then excluded.declared else t.declared end,
  priority = excluded.priority, turn = excluded.turn, debounce = excluded.debounce,
  expected_from = case when t.expect_within is distinct from excluded.expect_within or t.retired_at is not null
    then excluded.expected_from else t.expected_from end,
  expect_within = excluded.expect_within, retired_at = null, missing_since = null
where t.release <= excluded.release
  or not exists (
    select from mainspring.reactive_instance n join mainspring.reactive_release r on r.number = n.release
    where n.release > excluded.release and n.seen_at > mainspring.clock() - make_interval(secs => %(living)s::double precision)
      and t.task = any(r.tasks))
returning t.task, t.pool, t.declared, t.expect_within is not null as expects
