-- All scopes of a process that have not closed are being undone, by its cancel; those of compensations that run already
-- (opened by one of `kept`) end as ever. Under its exclusive lock. Rides scope_of_process.
update mainspring.scope
set state = 'undoing'
where process_id = %(process_id)s::uuid and state in ('open', 'failed') and not opened_by = any(%(kept)s::uuid[])
