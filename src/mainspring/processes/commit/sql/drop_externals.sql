-- Forget what tasks waited for outside the graph. Rides the primary key.
delete from mainspring.external
where task = any(%(tasks)s::uuid[])
