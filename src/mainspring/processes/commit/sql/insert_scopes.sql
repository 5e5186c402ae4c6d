-- Open scopes.
insert into mainspring.scope (id, process_id, parent, opened_by, on_error, promise, deadline_at, name)
select id, process_id, parent, opened_by, on_error, promise, mainspring.now() + make_interval(secs => timeout), name
from json_to_recordset(%(items)s::text::json) as i(id uuid, process_id uuid, parent uuid, opened_by uuid, on_error jsonb,
  promise uuid, timeout double precision, name text)
