-- How far these calls are, as their runs said last.
select id::text as id, done, note, attempt, changed_at from mainspring.progress where id = any(%(ids)s::uuid[])
