-- From here on every decision of these processes looks whether it was the last. Rides the primary key.
update mainspring.process
set root_closed = true
where id = any(%(ids)s::uuid[]) and not root_closed
