-- Lock an operation for a step. No row: it is no longer running, or another step went first. One whose items all wait for
-- a later page counts nothing, so the position says it too.
select id
from mainspring.operation
where id = %(id)s::bigint and state = 'running' and done + failed = %(at)s::bigint
  and position is not distinct from %(position)s::text::jsonb
for update
