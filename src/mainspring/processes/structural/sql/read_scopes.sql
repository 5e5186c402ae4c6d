-- The scopes of a process. Rides scope_of_process.
select id::text, parent::text, opened_by::text, state::text, on_error::text, promise::text, error::text,
  deadline_at, deadline_at <= mainspring.now() as is_over, name
from mainspring.scope
where process_id = %(id)s::uuid
order by id
