-- Set some limits of a queue and tell the workers; a limit that is not named stays, null lifts it. The change stands
-- until the declaration in the code changes, and is kept with who made it. No row: there is no such queue. With another bound of
-- what may wait the queue is not full until it is counted again (mark_full.sql).
with wish as (
  select %(changes)s::text::jsonb as wish
),
before as (
  select name, jsonb_build_object('concurrency', concurrency, 'rate', rate, 'group_concurrency', group_concurrency,
    'group_rate', group_rate, 'waiting_max', waiting_max, 'burst', burst, 'group_burst', group_burst, 'breaker_failures', breaker_failures, 'breaker_pause', breaker_pause) as limits
  from mainspring.queue
  where name = %(name)s::text
  for update
),
changed as (
  update mainspring.queue q
  set concurrency = case when wish ? 'concurrency' then (wish ->> 'concurrency')::integer else q.concurrency end,
    rate = case when wish ? 'rate' then (wish ->> 'rate')::double precision else q.rate end,
    group_concurrency =
      case when wish ? 'group_concurrency' then (wish ->> 'group_concurrency')::integer else q.group_concurrency end,
    group_rate = case when wish ? 'group_rate' then (wish ->> 'group_rate')::double precision else q.group_rate end,
    waiting_max = case when wish ? 'waiting_max' then (wish ->> 'waiting_max')::integer else q.waiting_max end,
    burst = case when wish ? 'burst' then (wish ->> 'burst')::integer else q.burst end,
    group_burst = case when wish ? 'group_burst' then (wish ->> 'group_burst')::integer else q.group_burst end,
    breaker_failures =
      case when wish ? 'breaker_failures' then (wish ->> 'breaker_failures')::integer else q.breaker_failures end,
    breaker_pause =
      case when wish ? 'breaker_pause' then (wish ->> 'breaker_pause')::double precision else q.breaker_pause end,
    is_full = q.is_full and not wish ? 'waiting_max',
    changed_at = mainspring.now()
  from wish, before b
  where q.name = b.name
  returning q.name, b.limits as before, b.limits || wish as after
),
kept as (
  insert into mainspring.setting_change (subject, source, before, after)
  select 'actor ' || name, %(source)s::text, before, after
  from changed
)
select name, pg_notify('mainspring', 'settings') from changed
