-- A task with a task timeout and its visit, if it is there: whether and how its time has come. Rides the primary keys.
select t.state::text, t.promise::text, t.actor, t.generation, t.scope_id::text,
  coalesce(t.options ->> 'on_task_timeout', q.policy ->> 'on_task_timeout', 'slide') as on_task_timeout,
  (v.payload ->> 'deadline')::timestamptz as deadline_at, v.pass is not null as held, v.held_until,
  v.parked_at is not null as parked, mainspring.now() as now
from mainspring.task t
left join mainspring.visit v on v.key = t.id::text and v.queue = t.actor
left join mainspring.queue q on q.name = t.actor
where t.process_id = %(process_id)s::uuid and t.id = %(task)s::uuid
