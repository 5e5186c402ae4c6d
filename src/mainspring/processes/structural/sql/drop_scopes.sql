-- Scopes that were opened by tasks which are redone. Rides scope_of_process.
delete from mainspring.scope
where process_id = %(process_id)s::uuid and opened_by = any(%(tasks)s::uuid[])
