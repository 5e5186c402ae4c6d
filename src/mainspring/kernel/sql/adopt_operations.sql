-- Take the steps of operations away from pools in which nobody was heard of for a minute; the caller offers them anew in
-- its own pool, in the same transaction. A run that is under way there all the same is not settled: its row is gone.
-- Locks in (shard, key, queue) order, skips what others have locked. Rides visit_due. Answers the operations' ids.
with waiting as materialized (
  select v.shard, v.key, v.queue
  from mainspring.visit v
  where v.queue >= 'mainspring.operation' and v.queue < 'mainspring.operationA'  -- and those of all pools, @...
    and v.queue <> %(queue)s::text
    and v.pass is null
    and v.parked_at is null
    and not exists (
      select from mainspring.worker w
      where w.queues @> array[v.queue::text] and w.slots > 0 and w.beat_at > mainspring.now() - interval '1 minute')
  order by v.shard, v.key, v.queue
  for update of v skip locked
)
delete from mainspring.visit v
using waiting w
where v.shard = w.shard and v.key = w.key and v.queue = w.queue
returning v.key
