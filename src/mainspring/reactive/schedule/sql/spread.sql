-- Offer a check of the tasks that use some params: a page of them, by name. Tasks in flight are skipped: the end of their run
-- offers a check, and this snapshot is later than the read of the change. A failed task is looked at when its backoff ends.
-- Merges with a check that waits (the earlier time wins). Upserts in (shard, key, queue) order. Answers the last task looked
-- at (null: none) and how many. Rides uses_pkey and reactive_task_by_name. Versions count up from a random token and ids are digests:
-- drawing random bits for each row took most of the statement's time.
with page as materialized (
  select distinct u.task
  from mainspring.uses u
  where u.param = any(%(params)s::text[]) and u.task > %(after)s::text
  order by u.task
  limit %(most)s::integer
),
due as (
  select p.task, mainspring.shard(p.task, s.shard_count) as shard,
    greatest(mainspring.now() + t.debounce, t.retry_at) as due_at
  from page p
  join mainspring.reactive_task t on t.task = p.task
  cross join mainspring.install s
  where t.firing is null and t.paused_at is null and t.retired_at is null
  order by 2, 1
),
offered as (
  insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
  select shard, task, 'mainspring.check', md5(task || %(token)s::bigint)::uuid, 9, due_at,
    %(token)s::bigint + row_number() over (), '{}', mainspring.now(), mainspring.now()
  from due
  on conflict (shard, key, queue) do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at
  returning v.due_at
),
hint as materialized (
  select mainspring.wake('mainspring.check', min(due_at)) from offered having count(*) > 0
)
select (select max(task) from page) as last, (select count(*) from page)::integer as looked,
  (select count(*) from offered)::integer as offered, (select count(*) from hint) as hints
