-- Runs that ended in each of the last minutes, of a queue or of all: how many, how many failed, and how long they took. Those of a bundle
-- count in the minute of its last. Rides history_ended and history_bundle_ended, and opens no bundle.
select m.minute, coalesce(sum(h.count), 0)::bigint as count, coalesce(sum(h.failed), 0)::bigint as failed,
  coalesce(sum(h.ms) / nullif(sum(h.count), 0), 0) as mean_ms
from generate_series(date_trunc('minute', mainspring.now()) - make_interval(mins => %(minutes)s::integer - 1),
  date_trunc('minute', mainspring.now()), interval '1 minute') as m(minute)
left join (
  select date_trunc('minute', r.ended_at) as minute, count(*) as count, count(*) filter (where r.outcome in ('retry', 'parked')) as failed,
    sum(r.duration_ms) as ms
  from mainspring.history_run r
  where r.ended_at >= date_trunc('minute', mainspring.now()) - make_interval(mins => %(minutes)s::integer - 1)
    and r.worker_id <> '00000000-0000-0000-0000-000000000000'
    and (%(queue)s::text is null or r.queue = %(queue)s::text)
  group by 1
  union all
  select date_trunc('minute', b.last_end), sum(b.size), 0, sum(b.took_us) / 1e3::double precision
  from mainspring.history_bundle b
  where b.last_end >= date_trunc('minute', mainspring.now()) - make_interval(mins => %(minutes)s::integer - 1)
    and (%(queue)s::text is null or b.queue = %(queue)s::text)
  group by 1
) h on h.minute = m.minute
group by m.minute
order by m.minute
