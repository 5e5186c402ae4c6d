-- The calls of a process that wait for others, and how many of those have not ended. A list that the engine puts together
-- (@gather, @concat) stands for what is in it. Rides the primary key of task, and edge_of_task.
with recursive waiting as (
  select t.id, t.actor from mainspring.task t
  where t.process_id = %(id)s::uuid and t.state = 'open' and t.waits > 0 and left(t.actor, 1) <> '@'
  order by t.created_at, t.id limit %(limit)s::integer
), lists as materialized (
  select t.id, t.promise from mainspring.task t where t.process_id = %(id)s::uuid and t.actor in ('@gather', '@concat')
), below as (
  select w.id, w.actor, e.promise from waiting w
  join mainspring.edge e on e.process_id = %(id)s::uuid and e.task = w.id and e.kind <> 'handle'
  union
  select b.id, b.actor, e.promise from below b
  join lists l on l.promise = b.promise
  join mainspring.edge e on e.process_id = %(id)s::uuid and e.task = l.id
)
select b.id::text as task, b.actor, count(*) filter (where t.outcome is null) as missing, count(*) as of
from below b
join mainspring.task t on t.process_id = %(id)s::uuid and t.id = b.promise
where b.promise not in (select l.promise from lists l)
group by b.id, b.actor
order by b.id
