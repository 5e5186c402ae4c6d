-- Parked tasks go on as they were: same generation, same idempotency key. The rows are locked. Rides the primary key.
update mainspring.task t
set state = 'open', error = null, changed_at = mainspring.now()
from unnest(%(processes)s::uuid[], %(ids)s::uuid[]) as i(process_id, id)
where t.process_id = i.process_id and t.id = i.id and t.state = 'parked'
returning t.id::text
