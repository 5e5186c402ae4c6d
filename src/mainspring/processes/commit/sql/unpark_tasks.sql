-- Forget parked tasks that have ended or go on. Rides the primary key; the ids are read once, whatever the plan.
delete from mainspring.parked_task
where task = any((select %(tasks)s::text::uuid[])::uuid[])
