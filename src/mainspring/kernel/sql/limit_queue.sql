-- Set some limits of a queue and tell the workers; a limit that is not named stays, null lifts it. The change stands
-- until the declaration in the code changes. No row: there is no such queue.
with wish as (
  select %(changes)s::text::jsonb as wish
),
changed as (
  update mainspring.queue q
  set concurrency = case when wish ? 'concurrency' then (wish ->> 'concurrency')::integer else q.concurrency end,
    rate = case when wish ? 'rate' then (wish ->> 'rate')::double precision else q.rate end,
    group_concurrency =
      case when wish ? 'group_concurrency' then (wish ->> 'group_concurrency')::integer else q.group_concurrency end,
    group_rate = case when wish ? 'group_rate' then (wish ->> 'group_rate')::double precision else q.group_rate end,
    changed_at = mainspring.now()
  from wish
  where q.name = %(name)s::text
  returning q.name
)
select name, pg_notify('mainspring', 'settings') from changed
