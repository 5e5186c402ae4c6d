-- Hold visits that this transaction has locked (pull_visits.sql), each under the pass of the pull that gets it: the recovery
-- time stands before anything is handed out. Each is found by its address, which cannot change while it is locked.
-- Answers the passes, since when each is held, until when, and where the row lies now.
update mainspring.visit v
set pass = i.pass, holder = null, started_at = mainspring.now(),
  held_until = mainspring.now() + make_interval(secs => i.work_timeout), changed_at = mainspring.now()
from unnest(%(addresses)s::text::tid[], %(versions)s::bigint[], %(passes)s::bigint[],
  %(work_timeouts)s::double precision[]) as i(address, version, pass, work_timeout)
where v.ctid = i.address and v.version = i.version
returning v.pass as run, extract(epoch from v.started_at)::double precision as started, v.held_until, v.ctid::text as address
