-- Pools whose workers have different code: how many codes (the release before counts as one each), how many workers do
-- not know bands, and into how many bands the pool is cut. Locks nothing.
select w.pool, count(*) as workers, count(distinct coalesce(w.code, w.queues::text)) as codes,
  count(*) filter (where w.code is null) as workers_before,
  (select count(distinct l.pool) from mainspring.lease l where l.pool > w.pool and l.pool < w.pool || ' ') as bands
from mainspring.worker w
group by w.pool
having count(distinct coalesce(w.code, w.queues::text)) > 1
order by w.pool
