-- Processes of which nothing is live any more are cancelled, and their looks are not needed: the caller has their locks.
-- Rides the primary key.
update mainspring.process
set state = 'cancelled', ended_at = mainspring.now(), root_closed = true, closing_at = null
where id = any(%(ids)s::uuid[])
