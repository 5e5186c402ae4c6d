-- Visits that a run holds, the longest first. Locks nothing. Rides visit_held.
select v.queue, v.key, v.id, v.grp as "group", v.priority, 'running' as state, v.due_at, least(v.attempt, 2147483646) + 1 as attempt, v.crashes, v.holder, v.started_at,
  v.held_until, case when v.called_off is null then v.expires_at end as expires_at, v.parked_at, v.error, v.payload::text as payload, v.created_at, v.changed_at, v.shard,
  v.called_off
from mainspring.visit v
where v.pass is not null and (%(queue)s::text is null or v.queue = %(queue)s::text)
order by v.started_at, v.key
limit %(most)s::integer
