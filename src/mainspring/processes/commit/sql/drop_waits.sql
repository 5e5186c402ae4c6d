-- Forget the counts of tasks that wait no longer; their rows are locked. Rides the primary key.
delete from mainspring.wait
where task = any(%(tasks)s::uuid[])
