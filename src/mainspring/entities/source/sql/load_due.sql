-- In which queues (one each, or null: any) these (shard, key) have a visit that is due or parked: an answer of
-- should_process would change nothing there. Locks nothing. Rides the primary key.
select i.n::integer as n, v.queue
from rows from (
  unnest(%(shards)s::text::integer[]), json_array_elements_text(%(keys)s::text::json),
  json_array_elements_text(%(queues)s::text::json)
) with ordinality as i(shard, key, queue, n)
join mainspring.visit v on v.shard = i.shard and v.key = i.key and (i.queue is null or v.queue = i.queue)
where v.due_at <= mainspring.now() or v.parked_at is not null
