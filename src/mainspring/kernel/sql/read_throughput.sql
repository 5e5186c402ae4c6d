-- Runs that ended in the last so many seconds, by queue and outcome. Rides history_time.
select q.name as queue, h.outcome::text as outcome, count(*) as count, avg(h.duration_ms) as mean_ms
from mainspring.queue q
join mainspring.history h on h.queue = q.name
where h.ended_at > mainspring.now() - make_interval(secs => %(seconds)s::double precision)
  and h.worker_id <> '00000000-0000-0000-0000-000000000000'
group by q.name, h.outcome
order by q.name, h.outcome
