-- Take back what was counted against visits for a worker that lived (deny_death.sql). What is parked stays so: a process may
-- have been told. Locks the visits in (shard, key, queue) order, along the primary key. Answers the keys.
with blamed as (
  delete from mainspring.blame where worker_id = %(worker_id)s::uuid
  returning shard, key, queue, id
),
mine as materialized (
  select v.shard, v.key, v.queue
  from blamed b
  join mainspring.visit v on v.shard = b.shard and v.key = b.key and v.queue = b.queue
  where v.id = b.id and v.crashes > 0 and v.parked_at is null
  order by v.shard, v.key, v.queue
  for update of v
)
update mainspring.visit v
set crashes = v.crashes - 1, changed_at = mainspring.now()
from mine m
where v.shard = m.shard and v.key = m.key and v.queue = m.queue
returning v.key
