-- Tasks that a task made which is redone: they never were. Rides the primary key.
update mainspring.task
set state = 'superseded', outcome = null, result = null, error = null, outcome_no = null, changed_at = mainspring.now()
where process_id = %(process_id)s::uuid and id = any(%(tasks)s::uuid[])
