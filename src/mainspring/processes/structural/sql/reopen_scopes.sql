-- Scopes that had succeeded and have tasks to redo: open once more, with as much time as before. Rides the primary key.
update mainspring.scope
set state = 'open', deadline_at = mainspring.now() + (deadline_at - created_at), created_at = mainspring.now()
where id = any(%(ids)s::uuid[]) and state = 'closed'
