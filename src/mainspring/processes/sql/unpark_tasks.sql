-- Forget parked tasks that have ended or go on. Rides the primary key.
delete from mainspring.parked_task
where task = any(%(tasks)s::uuid[])
