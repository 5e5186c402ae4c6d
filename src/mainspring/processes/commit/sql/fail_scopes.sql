-- Mark scopes as failed by a task of theirs; the look that follows ends them. Answers those that are marked now.
update mainspring.scope s
set state = 'failed', error = i.error
from json_to_recordset(%(items)s::text::json) as i(id uuid, error jsonb)
where s.id = i.id and s.state = 'open'
returning s.id::text, s.process_id::text
