-- Close the breaker of a queue, or of one of its groups, forget what it has counted, and tell the workers. No row: it was closed.
with closed as (
  delete from mainspring.breaker where queue = %(name)s::text and grp = %(group)s::text
  returning queue, opened_at is not null as was_open
)
select queue as name, pg_notify('mainspring', 'settings') from closed where was_open
