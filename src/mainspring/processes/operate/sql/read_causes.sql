-- The live tasks of a process that wait for something other than its own tasks: those with a visit, external and parked
-- ones; with them whether any worker lives. Rides the primary key of task.
select t.id::text, t.actor, t.state::text, t.created_at, t.error::text as error, x.kind::text as external, x.name as signal, x.since is not null as now,
  x.due_at, x.child::text as child, v.queue,
  (select q.kind from mainspring.queue q where q.name = v.queue) = 'remote' as remote, v.pass is not null as held, v.held_until,
  (select count(*) from mainspring.worker) as workers, t.changed_at
from mainspring.task t
left join mainspring.external x on x.task = t.id
left join mainspring.visit v on v.key = t.id::text
  and (case when left(t.actor, 1) = '@' then left(v.queue, 18) = 'mainspring.process' else v.queue = t.actor end)
where t.process_id = %(id)s::uuid
  and t.state in ('open', 'external', 'parked')
  and (v.queue is not null or t.state <> 'open')
order by t.state desc, t.created_at
limit %(limit)s::integer
