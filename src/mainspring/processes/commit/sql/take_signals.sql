-- Take signals, each by one task. One that is not answered was taken meanwhile: the caller begins anew.
update mainspring.signal s
set taken_by = i.task, taken_generation = i.generation
from unnest(%(processes)s::uuid[], %(names)s::text[], %(ids)s::text[], %(tasks)s::uuid[], %(generations)s::integer[])
  as i(process_id, name, id, task, generation)
where s.process_id = i.process_id and s.name = i.name and s.id = i.id and s.taken_by is null
returning s.id
