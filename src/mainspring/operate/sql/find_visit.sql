-- Visits of some keys, of one queue and group or of all, wherever their route put them. Rides the primary key.
select v.queue, v.key, v.id, v.grp as "group", v.priority, v.state::text as state, v.due_at, v.attempt, v.crashes, v.holder,
  v.started_at, v.held_until, v.expires_at, v.parked_at, v.error, v.payload::text as payload, v.created_at, v.changed_at, v.shard,
  v.called_off
from mainspring.visit_status v
where v.key = any(%(keys)s::text[])
  and (%(grp)s::text is null or v.grp = %(grp)s::text)
  and (%(queue)s::text is null or v.queue = %(queue)s::text)
order by v.queue
