-- Write what checks came to: fire, or note that the verdict or a leaf's changed. Only where the turn is still the one that was
-- read: a verdict on an older state starts nothing. The row is found by the address that was read: one that is not there was
-- written since, by whomever. A firing in a pool without a cap is admitted here and now, and its run
-- offered; in a pool with one, its admission is offered.
-- Locks reactive_task rows by name and skips those that others have locked, then shares the pools' rows, then upserts visits
-- (offer_batch). A task that is not answered was locked or has moved on: look again.
with mine as materialized (
  select i.task, i.fires, i.firing, i.new_turn, i.kind, i.record, i.captured, i.verdict, i.leaves, i.cause, i.noted, i.id, t.pool
  from unnest(%(tasks)s::text[], %(addresses)s::text[], %(turns)s::bigint[], %(fires)s::boolean[], %(firings)s::bigint[], %(new_turns)s::bigint[],
    %(kinds)s::text[], %(records)s::boolean[], %(captured)s::text[], %(verdicts)s::boolean[], %(leaves)s::text[],
    %(causes)s::text[], %(noted)s::boolean[], %(ids)s::uuid[])
    as i(task, address, turn, fires, firing, new_turn, kind, record, captured, verdict, leaves, cause, noted, id)
  join mainspring.reactive_task t on t.ctid = i.address::tid
  where t.task = i.task and t.turn = i.turn
  order by t.task
  for update of t skip locked
),
pool as materialized (
  select p.pool, p.cap
  from mainspring.reactive_pool p
  where p.pool in (select m.pool from mine m where m.fires)
  order by p.pool
  for share
),
written as (
  update mainspring.reactive_task t
  set turn = i.new_turn,
    firing = i.firing,
    fired_at = case when i.fires then mainspring.clock() end,
    last_fired_at = case when i.fires and i.kind = 'regular' then mainspring.clock() else t.last_fired_at end,
    kind = case when i.fires then i.kind end,
    record = case when i.fires then i.record end,
    captured = case when i.fires then i.captured::jsonb end,
    base = case when i.fires then t.seen_run end,
    admitted_at = case when i.fires and not exists (select from pool p where p.pool = t.pool and p.cap is not null)
      then mainspring.clock() end,
    cause = case when i.fires then i.cause else t.cause end,
    request = case when i.fires then null else t.request end,
    repair = null,
    kept_back_at = null,
    checked_at = mainspring.clock(),
    since = case when t.verdict is distinct from i.verdict then mainspring.clock() else t.since end,
    verdict = coalesce(i.verdict, t.verdict),
    leaves = coalesce(i.leaves::jsonb, t.leaves)
  from mine i
  where t.task = i.task
  returning t.task, t.pool, t.priority, i.fires, i.firing, i.id, t.admitted_at is not null as admitted, i.noted, i.verdict, i.leaves, i.cause
),
story as (
  insert into mainspring.evaluation (task, at, verdict, fired, leaves, cause)
  select w.task, mainspring.clock(), coalesce(w.verdict, false), w.fires, coalesce(w.leaves::jsonb, '[]'), w.cause
  from written w
  where w.noted
),
wanted as (
  select mainspring.shard(w.task, s.shard_count) as shard, w.task as key, 'mainspring.run.' || w.pool as queue, w.id, w.priority,
    jsonb_build_object('firing', w.firing::text) as payload
  from written w cross join mainspring.install s
  where w.fires and w.admitted
  union all
  select mainspring.shard(a.pool, s.shard_count), a.pool, 'mainspring.admit', md5(a.pool || %(token)s::bigint)::uuid, 9, '{}'::jsonb
  from (select distinct pool from written where fires and not admitted) a cross join mainspring.install s
),
offered as materialized (
  select mainspring.offer_batch(array_agg(shard), array_agg(key), array_agg(queue), array_agg(id), array_agg(priority::integer),
    array_agg(mainspring.now()), array_agg(payload), %(token)s::bigint)
  from wanted
  having count(*) > 0
)
select task, case when admitted then 'mainspring.run.' || pool else 'mainspring.admit' end as queue, fires, mainspring.now() as due_at,
  (select count(*) from offered) as hints
from written
