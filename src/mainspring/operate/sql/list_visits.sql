-- Visits of a queue, or of all, that are neither held nor parked: the next to run first. Locks nothing.
-- Rides visit_due, once per queue and priority.
with recursive name as (
  (select queue from mainspring.visit where pass is null and parked_at is null order by queue limit 1)
  union all
  select (
    select v.queue from mainspring.visit v
    where v.pass is null and v.parked_at is null and v.queue > n.queue order by v.queue limit 1)
  from name n
  where n.queue is not null
)
select v.queue, v.key, v.id, v.grp as "group", v.priority, v.state, v.due_at, v.attempt, v.crashes, v.holder, v.started_at, v.held_until,
  v.expires_at, v.parked_at, v.error, v.payload, v.created_at, v.changed_at, v.shard,
  v.called_off
from name n
cross join generate_series(9, 0, -1) as p(priority)
cross join lateral (
  select v.queue, v.key, v.id, v.grp, v.priority, case when v.due_at > mainspring.now() then 'scheduled' else 'waiting' end as state,
    v.due_at, least(v.attempt, 2147483646) + 1 as attempt, v.crashes, v.holder, v.started_at, v.held_until, v.expires_at, v.parked_at, v.error,
    v.payload::text as payload, v.created_at, v.changed_at, v.shard,
    v.called_off
  from mainspring.visit v
  where v.queue = n.queue
    and v.priority = p.priority
    and v.pass is null
    and v.parked_at is null
    and v.due_at > case when %(state)s::text = 'scheduled' then mainspring.now() else '-infinity' end
    and v.due_at <= case when %(state)s::text = 'waiting' then mainspring.now() else 'infinity' end
  order by v.due_at, v.key
  limit %(most)s::integer
) v
where %(queue)s::text is null or n.queue = %(queue)s::text
order by v.state desc, v.priority desc, v.due_at, v.key
limit %(most)s::integer
