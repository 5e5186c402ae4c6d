-- Runs that ended in the last so many seconds, by queue and outcome. Rides history_time and history_bundle_end; opens only
-- bundles that began before that.
select q.name as queue, h.outcome, sum(h.count)::bigint as count, sum(h.ms) / sum(h.count) as mean_ms
from mainspring.queue q
cross join (select mainspring.now() - make_interval(secs => %(seconds)s::double precision) as since) w
cross join lateral (
  select h.outcome::text as outcome, count(*) as count, sum(h.duration_ms) as ms
  from mainspring.history_run h
  where h.queue = q.name and h.ended_at > w.since and h.worker_id <> '00000000-0000-0000-0000-000000000000'
  group by h.outcome
  union all
  select 'done', n.count, n.ms
  from mainspring.bundles_of(q.name, w.since, 'infinity', null) p
  cross join lateral (
    select p.size as count, p.took_us / 1e3::double precision as ms where p.first_end > w.since
    union all
    select count(*), sum(r.duration_ms) from mainspring.runs_of(p) r where p.first_end <= w.since and r.ended_at > w.since
  ) n
  where n.count > 0 and q.name = any(array(select mainspring.bundled_queues()))
) h
group by q.name, h.outcome
order by q.name, h.outcome
