-- Note who asks for locks, in the order of asking. One that asked is in line already. Rides process_lock_once.
insert into mainspring.process_lock (name, process_id, task, generation, scope_id, asked_at)
select name, process_id, task, generation, scope_id, mainspring.now()
from json_to_recordset(%(items)s::text::json)
  as i(name text, process_id uuid, task uuid, generation integer, scope_id uuid)
on conflict (task, generation) do nothing
