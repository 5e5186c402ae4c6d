-- Hold visits that this transaction has locked (pull_visits.sql), each under the pass of the pull that gets it: the recovery
-- time stands before anything is handed out. Answers the passes, since when each is held and until when.
update mainspring.visit v
set pass = i.pass, holder = null, started_at = mainspring.now(),
  held_until = mainspring.now() + make_interval(secs => i.work_timeout), changed_at = mainspring.now()
from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[], %(passes)s::bigint[],
  %(work_timeouts)s::double precision[]) as i(shard, key, queue, pass, work_timeout)
where v.shard = i.shard and v.key = i.key and v.queue = i.queue
returning v.pass as run, extract(epoch from v.started_at)::double precision as started, v.held_until
