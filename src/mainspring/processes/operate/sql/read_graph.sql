-- The tasks of a process with what they wait for, oldest first, at most so many. Rides the primary keys of task and edge,
-- external, visit and signal. Superseded tasks of earlier generations are left out unless asked for.
select t.id::text, t.created_by::text, t.promise::text, t.actor, t.state::text, t.outcome::text, t.generation,
  t.scope_id::text, t.created_at, t.changed_at, t.error::text as error, x.kind::text as external, coalesce(x.name, s.name) as signal, x.due_at,
  x.child::text as child, v.queue, v.due_at as visit_due_at, v.pass is not null as running, v.parked_at, v.attempt, v.error as visit_error,
  (
    select json_agg(json_build_array(e.promise, e.kind) order by e.pos)::text
    from mainspring.edge e where e.process_id = t.process_id and e.task = t.id
  ) as inputs,
  s.sent_by, s.sent_at,
  case t.actor when '@some_of' then t.args::text
    when '@lock' then t.args ->> 'name'
    when '@leave' then (select c.name from mainspring.scope c where c.id = t.scope_id)
    else x.since::text end as about
from mainspring.task t
left join mainspring.external x on x.task = t.id
left join mainspring.signal s on s.process_id = t.process_id and s.taken_by = t.id
left join mainspring.visit v on v.key = t.id::text
  and (case when left(t.actor, 1) = '@' then left(v.queue, 18) = 'mainspring.process' else v.queue = t.actor end)
where t.process_id = %(id)s::uuid
  and (%(superseded)s::boolean or t.state <> 'superseded')
order by t.created_at, t.id
limit %(limit)s::integer
