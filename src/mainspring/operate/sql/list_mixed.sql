-- Pools whose workers have different queues: how many workers, how many of these do not know bands (of the release before), and
-- into how many bands the pool is cut. Looks at the queues of each code once. Locks nothing.
with code as (
  select pool, count(*) as workers, count(*) filter (where code is null) as workers_before, min(queues) as queues
  from mainspring.worker
  group by pool, coalesce(code, id::text)
)
select pool, sum(workers)::bigint as workers, sum(workers_before)::bigint as workers_before,
  (select count(distinct l.pool) from mainspring.lease l where l.pool > c.pool and l.pool < c.pool || ' ') as bands
from code c
group by pool
having count(distinct (select string_agg(queue, ',' order by queue) from unnest(queues) as u(queue))) > 1
order by pool
