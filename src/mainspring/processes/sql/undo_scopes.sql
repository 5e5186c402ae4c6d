-- All scopes of a process that have not closed are being undone, by its cancel. Under its exclusive lock. Rides scope_of_process.
update mainspring.scope
set state = 'undoing'
where process_id = %(process_id)s::uuid and state in ('open', 'failed')
