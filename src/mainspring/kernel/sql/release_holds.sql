-- Give runs back that will not end: they are due again at once, nothing is counted. Answers how many.
with mine as materialized (
  select shard, key, queue
  from mainspring.visit
  where pass is not null and holder = %(worker_id)s::uuid and shard = any(%(shards)s::integer[])
    and pass = any(%(runs)s::bigint[])
  order by shard, key, queue
  for update
)
update mainspring.visit v
set pass = null, holder = null, started_at = null, held_until = null, changed_at = mainspring.now()
from mine m
where v.shard = m.shard and v.key = m.key and v.queue = m.queue
returning v.key
