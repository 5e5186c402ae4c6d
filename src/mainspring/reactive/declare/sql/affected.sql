-- The consumers of a param whose last recorded check is older than its last rewind, with what repairs each (R13).
-- Rides uses_pkey and reactive_task_pkey.
select t.task, t.firing is not null as in_flight, t.run is not null as running, (t.seen -> p.name)::text as seen,
  d.options ->> 'on_rewind' as on_rewind, d.tree::text as tree
from mainspring.param p
join mainspring.uses u on u.param = p.name
join mainspring.reactive_task t on t.task = u.task
join mainspring.definition d on d.fingerprint = t.fingerprint
where p.name = %(name)s::text
  and coalesce((t.seen -> p.name ->> 1)::integer, p.rewinds) < p.rewinds
order by t.priority desc, t.task
