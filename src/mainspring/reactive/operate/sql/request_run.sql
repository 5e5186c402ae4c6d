-- Ask for a manual run: a new turn, so that a verdict under way starts nothing else. A second request takes the place of the
-- first; in flight it waits for the end. Locks the task's row. No row: no such task.
update mainspring.reactive_task
set request = jsonb_build_object('record', %(record)s::boolean, 'by', %(by)s::text), turn = mainspring.token()
where task = %(task)s::text and retired_at is null
returning firing is not null as in_flight
