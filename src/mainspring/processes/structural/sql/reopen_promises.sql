-- Promises that are fulfilled anew. Rides the primary key.
update mainspring.task
set outcome = null, result = null, error = null, outcome_no = null, changed_at = mainspring.now()
where process_id = %(process_id)s::uuid and id = any(%(promises)s::uuid[]) and state <> 'superseded'
