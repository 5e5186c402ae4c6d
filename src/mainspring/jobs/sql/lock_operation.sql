-- Lock an operation for a step. No row: it is no longer running, or another step went first. One whose items all wait for
-- a later page counts nothing, so the position says it too.
-- Only the last step's commit waits for the disk: what a crash of the server takes of the others it takes with their
-- position, and they are done again. A flush of theirs would hold up everybody else's.
select id, case when not %(last)s::boolean then set_config('synchronous_commit', 'off', true) end as flush
from mainspring.operation
where id = %(id)s::bigint and state = 'running' and done + failed = %(at)s::bigint
  and position is not distinct from %(position)s::text::jsonb
for update
