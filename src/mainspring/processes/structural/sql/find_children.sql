-- The open child processes that these tasks wait for. Rides process_of_parent.
select id::text, engine
from mainspring.process
where parent_process = %(process_id)s::uuid and parent_task = any(%(tasks)s::uuid[]) and state = 'open'
