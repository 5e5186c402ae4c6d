-- All pools: how many of their shards have an owner, and of how many bands they consist (none: whole). A shard of a pool that
-- is cut has an owner when each of its bands has one. Locks nothing.
select s.pool, count(*) as shards, count(*) filter (where s.owned) as owned,
  (select count(distinct w.id) from mainspring.worker w join mainspring.lease l on l.worker_id = w.id where w.pool = s.pool) as workers,
  (select count(distinct l.pool) from mainspring.lease l where l.pool > s.pool and l.pool < s.pool || ' ') as bands
from (
  select split_part(pool, chr(31), 1) collate "C" as pool, shard, bool_and(worker_id is not null) as owned
  from mainspring.lease
  where worker_id is distinct from '00000000-0000-0000-0000-000000000000'
  group by 1, 2
) s
group by s.pool
order by s.pool
