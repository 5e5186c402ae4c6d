-- Insert the tasks that decisions made, and what they wait for, as JSON. Fresh ids: nothing can conflict.
with fresh as (
  insert into mainspring.task (process_id, id, created_by, creator_generation, promise, actor, edges, waits, args, args_version,
    options, scope_id, undo, step)
  select process_id, id, created_by, creator_generation, promise, actor, edges, waits, args, args_version, options,
    scope_id, undo, step
  from json_to_recordset(%(tasks)s::text::json) as t(process_id uuid, id uuid, created_by uuid,
    creator_generation integer, promise uuid, actor text, edges integer, waits integer, args jsonb, args_version integer, options jsonb,
    scope_id uuid, undo jsonb, step bigint)
),
counted as (
  insert into mainspring.wait (task, process_id, n)
  select task, process_id, n
  from json_to_recordset(%(waits)s::text::json) as w(task uuid, process_id uuid, n integer)
  order by task
)
insert into mainspring.edge (process_id, promise, task, kind, pos)
select process_id, promise, task, kind, pos
from json_to_recordset(%(edges)s::text::json)
  as e(process_id uuid, promise uuid, task uuid, kind mainspring.edge_kind, pos integer)
