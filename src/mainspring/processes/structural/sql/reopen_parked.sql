-- Parked tasks go on as they were: same generation, same idempotency key. Locks the rows in the order of their ids, as
-- every commit does; what was locked is looked at as it is then. Rides the primary key.
with locked as materialized (
  select t.process_id, t.id
  from unnest(%(processes)s::text::uuid[], %(ids)s::text::uuid[]) as i(process_id, id)
  join mainspring.task t on t.process_id = i.process_id and t.id = i.id
  order by t.id
  for update of t
)
update mainspring.task t
set state = 'open', error = null, changed_at = mainspring.now()
from locked l
where t.process_id = l.process_id and t.id = l.id and t.state = 'parked'
returning t.id::text
