-- Visits of a queue whose payload has these fields, the next to run first. Looks at the next so many of each priority, and no further: no
-- index has payloads. Locks nothing. Rides visit_due.
select v.queue, v.key, v.id, v.grp as "group", v.priority, case when v.due_at > mainspring.now() then 'scheduled' else 'waiting' end as state,
  v.due_at, least(v.attempt, 2147483646) + 1 as attempt, v.crashes, v.holder, v.started_at, v.held_until, v.expires_at, v.parked_at, v.error,
  v.payload::text as payload, v.created_at, v.changed_at, v.shard, v.called_off
from generate_series(9, 0, -1) as p(priority)
cross join lateral (
  select *
  from mainspring.visit v
  where v.queue = %(queue)s::text and v.priority = p.priority and v.pass is null and v.parked_at is null
    and v.due_at > case when %(state)s::text = 'scheduled' then mainspring.now() else '-infinity' end
    and v.due_at <= case when %(state)s::text = 'waiting' then mainspring.now() else 'infinity' end
  order by v.due_at, v.key
  limit %(looked)s::integer
) v
where v.payload @> %(fields)s::jsonb
order by p.priority desc, v.due_at, v.key
limit %(most)s::integer
