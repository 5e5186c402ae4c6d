-- How long runs of reactive tasks usually take: the median over up to 200 past ones. Locks nothing. Rides history_pkey.
select t.task, percentile_cont(0.5) within group (order by h.duration_ms) as median_ms
from unnest(%(tasks)s::text[]) as t(task)
cross join lateral (
  select duration_ms from mainspring.history_run
  where key = t.task and starts_with(queue, 'mainspring.run.') and outcome = 'done'
  limit 200
) h
group by t.task
