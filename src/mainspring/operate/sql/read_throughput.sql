-- Runs that ended in the last so many seconds, by queue and outcome. Rides history_ended and history_bundle_ended; opens only
-- bundles that began before that. The bound stands in each condition, so that the planner sees how little it is.
select h.queue, h.outcome, sum(h.count)::bigint as count, sum(h.ms) / sum(h.count) as mean_ms
from (
  select r.queue, r.outcome::text as outcome, count(*) as count, sum(r.duration_ms) as ms
  from mainspring.history_run r
  where r.ended_at > mainspring.now() - make_interval(secs => %(seconds)s::double precision)
    and r.worker_id <> '00000000-0000-0000-0000-000000000000'
  group by r.queue, r.outcome
  union all
  select p.queue, 'done', n.count, n.ms
  from mainspring.history_bundle p
  cross join (select mainspring.now() - make_interval(secs => %(seconds)s::double precision) as since) w
  cross join lateral (
    select p.size as count, p.took_us / 1e3::double precision as ms where p.first_end > w.since
    union all
    select count(*), sum(r.duration_ms) from mainspring.runs_of(p) r where p.first_end <= w.since and r.ended_at > w.since
  ) n
  where p.last_end > mainspring.now() - make_interval(secs => %(seconds)s::double precision) and n.count > 0
) h
group by h.queue, h.outcome
order by h.queue, h.outcome
