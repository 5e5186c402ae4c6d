-- Settle many runs that settle_done could settle and that become one bundle of history: of one queue and priority, at their
-- first attempt, without group and result, under keys that are their ids and begin alike. Finds, locks, waits and answers
-- as settle_done does; what it does not find is in no bundle.
with given as materialized (
  select %(versions)s::text::bigint[] as versions, %(runs)s::text::bigint[] as runs, %(started)s::text::bigint[] as started,
    %(took)s::text::bigint[] as took
),
gone as (
  delete from mainspring.visit v
  where v.ctid = any(%(addresses)s::text::tid[])
    and v.version = (select versions from given)[width_bucket(v.version, (select versions from given))]
    and (v.pass is null or v.pass = (select runs from given)[width_bucket(v.version, (select versions from given))])
  returning width_bucket(v.version, (select versions from given)) as n, v.id, v.due_at, v.created_at, v.payload
),
story as (
  insert into mainspring.history_bundle (day, queue, priority, worker_id, kin, first_key, last_key, first_end, last_end, size,
    took_us, runs, ids, due_at, created_at, started_us, took, payloads)
  select date 'epoch' + (min(r.started) / 86400000000)::integer, %(queue)s::text, %(priority)s::smallint, %(worker_id)s::uuid,
    left(%(first_key)s::text, 8), %(first_key)s::text, %(last_key)s::text,
    to_timestamp(min(r.started + r.took) / 1e6::double precision), to_timestamp(max(r.started + r.took) / 1e6::double precision),
    count(*), sum(r.took)::bigint, array_agg(r.run), array_agg(r.id), array_agg(r.due_at), array_agg(r.created_at),
    array_agg(r.started), array_agg(r.took), array_agg(r.payload)
  from (
    select (select runs from given)[g.n] as run, (select started from given)[g.n] as started,
      (select took from given)[g.n] as took, g.id, g.due_at, g.created_at, g.payload
    from gone g
  ) r
  having count(*) > 0
)
select count(*) as settled,
  case when count(*) < %(count)s::bigint then (select array_agg((select runs from given)[n]) from gone) end as runs
from gone
