-- Scopes become another state. Rides the primary key.
update mainspring.scope
set state = %(state)s::text::mainspring.scope_state
where id = any(%(ids)s::uuid[])
