-- Held visits of processes whose work timeout has passed, of these passes, as a run reads them; with the policy of their
-- queue. Locks nothing: what is done about one compares its pass and version. Rides visit_held.
select v.shard, v.key, v.queue, v.id, v.grp, v.priority, date_part('epoch', v.due_at) as due, v.version, v.attempt, v.crashes,
  case when v.expires_at is not null then greatest(least(v.expires_at, '9999-01-01Z'), '1970-01-01Z') end as expires_at,
  v.payload::text as payload, v.pass as run, extract(epoch from v.started_at)::double precision as started, v.work_timeouts,
  coalesce(q.policy::text, '{}') as policy, extract(epoch from mainspring.now())::double precision as now
from mainspring.visit v
left join mainspring.queue q on q.name = v.queue
where v.pass is not null and v.shard = any(%(shards)s::integer[]) and v.pass = any(%(passes)s::bigint[])
  and v.held_until < mainspring.now()
