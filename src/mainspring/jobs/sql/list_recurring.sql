-- Schedules, all or one; next_at is when its visit is due (null: it has none). Rides the visits' primary key.
select r.name, coalesce(r.target, r.queue) as target, r.queue, r.cron, r.zone, r.payload::text as payload, r.priority, r.grp as "group",
  r.catch_up, r.catch_up_max, r.tick_argument, r.paused_at, r.paused_until, r.pause_reason, r.last_at, r.last_id, r.created_at,
  r.changed_at, v.due_at as next_at, p.pool, r.declared is not null or r.target is null as is_declared, r.changed_by, r.revision,
  r.make_up
from mainspring.recurring r
cross join mainspring.install n
left join mainspring.queue q on q.name = r.queue
cross join lateral (select coalesce(q.pool, 'default') as pool) p
left join mainspring.visit v on v.shard = mainspring.shard(r.name, n.shard_count) and v.key = r.name
  and v.queue = 'mainspring.recurring' || case when p.pool = 'default' then '' else '@' || p.pool end
where %(name)s::text is null or r.name = %(name)s::text
order by r.name
