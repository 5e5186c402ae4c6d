-- Tasks that are redone in place, in a new generation. Rides the primary key.
update mainspring.task t
set state = 'open', generation = t.generation + 1, waits = i.waits, done_no = null, changed_at = mainspring.now()
from unnest(%(tasks)s::uuid[], %(waits)s::integer[]) as i(id, waits)
where t.process_id = %(process_id)s::uuid and t.id = i.id
