-- How many more runs the limits of an actor allow that is served from elsewhere. Its row is locked by a statement before this one (lock_queue.sql).
-- Of its rate, what was handed out within the last second counts (or since one was due, if that is longer): it is in work,
-- or it has ended and history has it. Rides history_time.
select least(
    q.concurrency - (select count(*) from mainspring.visit v where v.queue = q.name and v.pass is not null),
    case when q.rate is not null then floor(q.rate * w.seconds + 1e-9)
      - (select count(*) from mainspring.visit v where v.queue = q.name and v.pass is not null and v.started_at > w.since)
      - (select count(*) from mainspring.history_run h where h.queue = q.name and h.ended_at > w.since and h.started_at > w.since)
    end
  )::integer as room
from mainspring.queue q
cross join lateral (select greatest(1, 1 / nullif(q.rate, 0)) as seconds) s
cross join lateral (select s.seconds, mainspring.now() - make_interval(secs => s.seconds) as since) w
where q.name = %(queue)s::text
