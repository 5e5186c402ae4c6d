-- Delete tasks that nothing needs any more, with their edges, and note how far back a restart can no longer reach.
-- Under the process's exclusive lock. Rides the primary keys.
with edges as (
  delete from mainspring.edge where process_id = %(process_id)s::uuid and task = any(%(tasks)s::uuid[])
),
gone as (
  delete from mainspring.task where process_id = %(process_id)s::uuid and id = any(%(tasks)s::uuid[])
)
update mainspring.process
set horizon = greatest(horizon, %(horizon)s::bigint)
where id = %(process_id)s::uuid
