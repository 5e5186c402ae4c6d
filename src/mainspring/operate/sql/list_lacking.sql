-- Queues that wait in some shards of a cut pool: the worker that owns them there lacks the queue, another one has it. That is
-- a part of a turn class, whose queues have one owner. Locks nothing. Looks at each band of a worker once.
with owned as materialized (
  select l.pool as name, l.worker_id, count(*) as shards
  from mainspring.lease l
  where strpos(l.pool, chr(31)) > 0 and l.worker_id is not null
  group by l.pool, l.worker_id
)
select b.pool, q.queue, sum(o.shards)::bigint as shards
from owned o
join mainspring.band b on b.name = o.name
join mainspring.worker w on w.id = o.worker_id
cross join unnest(b.queues) as q(queue)
where not q.queue = any(w.queues)
  and exists (select from mainspring.worker other where other.pool = b.pool and q.queue = any(other.queues))
group by b.pool, q.queue
order by b.pool, q.queue
limit 100
