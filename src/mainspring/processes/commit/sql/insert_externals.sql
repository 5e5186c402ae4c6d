-- Note what external tasks wait for.
insert into mainspring.external (task, process_id, kind, name, due_at, child)
select task, process_id, kind, name, due_at, child
from json_to_recordset(%(items)s::text::json)
  as i(task uuid, process_id uuid, kind mainspring.external_kind, name text, due_at timestamptz, child uuid)
on conflict (task) do nothing
