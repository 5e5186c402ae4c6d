-- Note tasks that need an operator, for groups and filters.
insert into mainspring.parked_task (task, process_id, type, actor, fingerprint, error_type, error)
select task, process_id, type, actor, fingerprint, error_type, error
from json_to_recordset(%(items)s::text::json)
  as i(task uuid, process_id uuid, type text, actor text, fingerprint text, error_type text, error text)
on conflict (task) do update
set fingerprint = excluded.fingerprint, error_type = excluded.error_type, error = excluded.error, parked_at = mainspring.now()
