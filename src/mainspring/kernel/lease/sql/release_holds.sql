-- Give back what this worker holds: these runs, or (null) all of them. Due again at once, nothing is counted.
-- Compares the pass, skips locked rows. Answers the visits:
-- those that were called off are to be ended in the same transaction (end_called_off).
with mine as materialized (
  select shard, key, queue
  from mainspring.visit
  where pass is not null and holder = %(worker_id)s::uuid
    and (%(runs)s::bigint[] is null or pass = any(%(runs)s::bigint[]))
  order by shard, key, queue
  for update skip locked
)
update mainspring.visit v
set pass = null, holder = null, started_at = null, held_until = null, changed_at = mainspring.now()
from mine m
where v.shard = m.shard and v.key = m.key and v.queue = m.queue
returning v.shard, v.key, v.queue, v.called_off is not null as called_off
