-- Lock an operation for a step. No row: it is no longer running, or another step went first.
select id
from mainspring.operation
where id = %(id)s::bigint and state = 'running' and done + failed = %(at)s::bigint
for update
