-- All pools: how many of their shards have an owner.
select l.pool, count(*) as shards, count(l.worker_id) as owned, count(distinct l.worker_id) as workers
from mainspring.lease l
group by l.pool
order by l.pool
