-- Scopes have come to their end. Answers the tasks that held a lock for them. Rides the primary key, and
-- process_lock_of_scope.
with closed as (
  update mainspring.scope set state = 'closed' where id = any(%(ids)s::uuid[])
)
select process_id::text, task::text from mainspring.process_lock where scope_id = any(%(ids)s::uuid[])
