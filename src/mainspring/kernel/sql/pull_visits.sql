-- Hold due visits of a queue that no worker serves, for an actor elsewhere: the recovery time stands before anything is
-- handed out. Only visits whose payload has the field `mark`, and whose time in the field `until`, if it has one, has not
-- passed: what these mean the layer knows. Most urgent first, then oldest.
-- Locks the rows and skips those that others take. Rides visit_due. Answers them as a run reads them, with their passes.
with free as materialized (
  select v.shard, v.key, v.queue
  from mainspring.visit v
  where v.queue = %(queue)s::text and v.pass is null and v.parked_at is null and v.due_at <= mainspring.now()
    and v.payload ? %(mark)s::text
    and case when v.payload ? %(until)s::text then (v.payload ->> %(until)s::text)::timestamptz > mainspring.now() else true end
  order by v.priority desc, v.due_at, v.key
  limit %(most)s::integer
  for update of v skip locked
)
update mainspring.visit v
set pass = mainspring.token(), holder = null, started_at = mainspring.now(),
  held_until = mainspring.now() + make_interval(secs => %(work_timeout)s::double precision), changed_at = mainspring.now()
from free f
where v.shard = f.shard and v.key = f.key and v.queue = f.queue
returning v.shard, v.key, v.queue, v.id, v.grp, v.priority, date_part('epoch', v.due_at) as due, v.version, least(v.attempt, 2147483645) as attempt, v.crashes,
  case when v.expires_at is not null then greatest(least(v.expires_at, '9999-01-01Z'), '1970-01-01Z') end as expires_at, v.payload::text as payload, v.pass as run, extract(epoch from v.started_at)::double precision as started, v.held_until
