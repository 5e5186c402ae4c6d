-- What a pull holds whose answer was lost: its passes are known by its own id and the versions of the visits (pass_of in
-- pulling.py). Moves the hold, by a microsecond at least: whoever meant to give it back for the lost answer sees that
-- it is out after all (give_back.sql). Locks the rows in (shard, key, queue) order. Rides visit_held.
with mine as materialized (
  select v.shard, v.key, v.queue, q.work_timeout
  from unnest(%(queues)s::text[], %(work_timeouts)s::double precision[]) as q(name, work_timeout)
  join mainspring.visit v on v.queue = q.name
  where v.pass is not null
    and v.pass = (('x' || left(encode(sha256(convert_to(%(pull_id)s::text || v.version::text, 'UTF8')), 'hex'), 16))::bit(64) >> 1)::bigint
  order by v.shard, v.key, v.queue
  for update of v
)
update mainspring.visit v
set held_until = greatest(mainspring.now() + make_interval(secs => m.work_timeout), v.held_until + interval '1 microsecond')
from mine m
where v.shard = m.shard and v.key = m.key and v.queue = m.queue
returning v.shard, v.key, v.queue, v.id, v.grp, v.priority, date_part('epoch', v.due_at) as due, v.version,
  least(v.attempt, 2147483645) as attempt, v.crashes,
  case when v.expires_at is not null then greatest(least(v.expires_at, '9999-01-01Z'), '1970-01-01Z') end as expires_at,
  v.payload::text as payload, v.ctid::text as address, v.pass as run, extract(epoch from v.started_at)::double precision as started, v.held_until
