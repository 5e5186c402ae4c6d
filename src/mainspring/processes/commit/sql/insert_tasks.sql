-- Insert the tasks that decisions made, and what they wait for, in columns. Fresh ids: nothing can conflict.
with fresh as (
  insert into mainspring.task (process_id, id, created_by, creator_generation, promise, actor, edges, waits, args, args_version,
    options, scope_id, undo, step)
  select process_id, id, created_by, creator_generation, coalesce(promise, id), actor, edges, waits, args, args_version,
    nullif(options, 'null'), scope_id, nullif(undo, 'null'), step
  from rows from (
    unnest(%(processes)s::text::uuid[]), unnest(%(ids)s::text::uuid[]), unnest(%(creators)s::text::uuid[]),
    unnest(%(creator_generations)s::text::integer[]), unnest(%(promises)s::text::uuid[]),
    json_array_elements_text(%(actors)s::text::json), unnest(%(edges)s::text::integer[]), unnest(%(waits)s::text::integer[]),
    jsonb_array_elements(%(args)s::text::jsonb), unnest(%(args_versions)s::text::integer[]),
    jsonb_array_elements(%(options)s::text::jsonb), unnest(%(scopes)s::text::uuid[]),
    jsonb_array_elements(%(undos)s::text::jsonb), unnest(%(steps)s::text::bigint[])
  ) as t(process_id, id, created_by, creator_generation, promise, actor, edges, waits, args, args_version, options,
    scope_id, undo, step)
),
counted as (
  insert into mainspring.wait (task, process_id, n)
  select task, process_id, n
  from unnest(%(counted)s::text::uuid[], %(counted_processes)s::text::uuid[], %(counts)s::text::integer[])
    as w(task, process_id, n)
  order by task
)
insert into mainspring.edge (process_id, promise, task, kind, pos)
select process_id, promise, task, kind, pos
from unnest(%(edge_processes)s::text::uuid[], %(edge_promises)s::text::uuid[], %(edge_tasks)s::text::uuid[],
    %(edge_kinds)s::text::mainspring.edge_kind[], %(edge_places)s::text::integer[])
  as e(process_id, promise, task, kind, pos)
