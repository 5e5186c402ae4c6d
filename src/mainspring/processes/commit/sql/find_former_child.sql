-- The process that has a key, if it is the child of what a restart has redone: of a task that was superseded, or of an
-- earlier generation of the task that starts one now. Rides process_one_per_key.
select p.id::text
from mainspring.process p
left join mainspring.task t on t.process_id = p.parent_process and t.id = p.parent_task
where p.type = %(type)s::text and p.key = %(key)s::text and p.parent_process = %(parent)s::uuid
  and (t.state = 'superseded' or (p.parent_task = %(task)s::uuid and p.parent_generation < %(generation)s::integer))
