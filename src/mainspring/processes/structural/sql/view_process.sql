-- A process as lock_alone.sql has it, unlocked: for what only looks.
select p.id::text, p.type, p.state::text, p.root::text, p.root_closed, p.generation, p.horizon, mainspring.now() as now,
  p.parent_process::text, p.parent_task::text, p.engine,
  (select o.engine from mainspring.process o where o.id = p.parent_process and o.state = 'open') as parent_engine,
  p.cancelling_at is not null as cancelling
from mainspring.process p
where p.id = %(id)s::uuid
