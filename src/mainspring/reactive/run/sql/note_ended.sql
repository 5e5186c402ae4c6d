-- Note that tasks of pools with a cap have just brought params: for a moment their consumers' slots stay reserved.
insert into mainspring.reactive_ended (pool, task, params, at)
select i.pool, i.task, array_agg(i.param), mainspring.clock()
from unnest(%(pools)s::text[], %(tasks)s::text[], %(params)s::text[]) as i(pool, task, param)
group by i.pool, i.task
