-- Offer a check of the tasks that use some params: a page of them, by name. Tasks in flight are skipped: the end of their run
-- offers a check, and this snapshot is later than the read of the change. A failed task is looked at when its backoff ends.
-- Merges with a check that waits (the earlier time wins; offer_batch). Answers the last task looked
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
),
offered as materialized (
  select mainspring.offer_batch(array_agg(shard), array_agg(task), array_fill('mainspring.check'::text, array[count(*)::integer]),
    array_agg(md5(task || %(token)s::bigint)::uuid), array_fill(9, array[count(*)::integer]), array_agg(due_at),
    array_fill('{}'::jsonb, array[count(*)::integer]), %(token)s::bigint) as n
  from due
  having count(*) > 0
)
select (select max(task) from page) as last, (select count(*) from page)::integer as looked,
  coalesce((select n from offered), 0) as offered
