-- The external tasks of processes, and how a child that one waits for stands. Locks nothing: the task's row decides.
-- Rides external_of_process.
select x.process_id::text, x.task::text, x.kind::text, x.name, x.due_at, t.promise::text, t.generation, t.scope_id::text,
  c.state::text, r.outcome::text, r.result::text, r.error::text, t.actor, x.since
from mainspring.external x
join mainspring.task t on t.process_id = x.process_id and t.id = x.task
left join mainspring.process c on c.id = x.child
left join mainspring.task r on r.process_id = c.id and r.id = c.root
where x.process_id = any(%(ids)s::uuid[])
order by x.task
