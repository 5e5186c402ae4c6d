-- Note what external tasks wait for. One that takes only signals from now on has the last one that is there; one that is
-- committed later has a higher number, or was sent before.
insert into mainspring.external (task, process_id, kind, name, due_at, child, since)
select task, process_id, kind, name, due_at, child,
  case when now then coalesce(
    (select max(s.no) from mainspring.signal s where s.process_id = i.process_id and s.name = i.name), 0) end
from json_to_recordset(%(items)s::text::json)
  as i(task uuid, process_id uuid, kind mainspring.external_kind, name text, due_at timestamptz, child uuid, now boolean)
on conflict (task) do nothing
