-- The parked tasks of a process, with their errors; and open ones whose visit the kernel parked (is_new). An error without a
-- type, of a visit that has killed workers, is a death (has_crashed).
select t.id::text, t.promise::text, t.actor, t.scope_id::text, t.generation, t.error::text as task_error, k.task is null as is_new,
  v.error as visit_error, v.crashes > 0 as has_crashed
from mainspring.task t
left join mainspring.parked_task k on k.task = t.id
join mainspring.visit v on v.key = t.id::text and v.parked_at is not null
  and (case when left(t.actor, 1) = '@' then left(v.queue, 18) = 'mainspring.process' else v.queue = t.actor end)
where t.process_id = %(id)s::uuid and t.state in ('open', 'parked')
