-- The open child processes of some processes. Rides process_of_parent.
select id::text, engine
from mainspring.process
where parent_process = any(%(ids)s::uuid[]) and state = 'open'
