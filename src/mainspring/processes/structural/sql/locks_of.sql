-- The tasks that asked for locks, of some processes or of some scopes. Rides process_lock_of_process and
-- process_lock_of_scope.
select process_id::text, task::text
from mainspring.process_lock
where process_id = any(%(processes)s::uuid[]) or scope_id = any(%(scopes)s::uuid[])
