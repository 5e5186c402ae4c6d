-- Due visits of queues that no worker serves, locked for whoever hands them out to actors elsewhere: of each queue at most so
-- many. A visit whose payload has the field `mark`, and whose time in the field `until`, if it has one, has passed, is left to the engine.
-- Of each queue most urgent first, then oldest: level by level, so that it rides visit_due however many wait. Locks no more
-- rows than it answers, and skips those that others take. The caller holds what it needs by hold_pulled.sql in the same transaction.
select v.shard, v.key, v.queue, v.id, v.grp, v.priority, date_part('epoch', v.due_at) as due, v.version,
  least(v.attempt, 2147483645) as attempt, v.crashes,
  case when v.expires_at is not null then greatest(least(v.expires_at, '9999-01-01Z'), '1970-01-01Z') end as expires_at,
  v.payload::text as payload, v.ctid::text as address, extract(epoch from mainspring.now())::double precision as now
from unnest(%(queues)s::text[], %(most)s::integer[]) as q(name, most)
cross join lateral (
  select v.*
  from generate_series(9, 0, -1) as level(priority)
  cross join lateral (
    select v.*, v.ctid
    from mainspring.visit v
    where v.queue = q.name and v.priority = level.priority
      and v.pass is null and v.parked_at is null and v.due_at <= mainspring.now()
      and case when v.payload ? %(mark)s::text and v.payload ? %(until)s::text then (v.payload ->> %(until)s::text)::timestamptz > mainspring.now() else true end
    order by v.due_at, v.key
    limit q.most
    for update of v skip locked
  ) v
  limit q.most
) v
