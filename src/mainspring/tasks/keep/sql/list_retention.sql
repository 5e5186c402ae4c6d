-- The rules of all queues. Where a round has not begun today, results are looked for from the first one on.
select r.queue, extract(epoch from r.keep_result)::double precision as keep_result,
  extract(epoch from r.keep_history)::double precision as keep_history,
  case when r.begun_on = t.today then r.dropped_until else '-infinity' end as dropped_until,
  case when r.begun_on = t.today then r.dropped_run else 0 end as dropped_run
from mainspring.retention r
cross join (select (mainspring.now() at time zone 'UTC')::date as today) t
order by r.queue
