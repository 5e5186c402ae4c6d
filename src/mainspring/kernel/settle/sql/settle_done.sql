-- Settle runs that are done and have nothing more to say: the hot form of settle, for visits that nobody has touched since
-- they were read. Each row is found by the address at which it was read; that its version is still one that was read says
-- that it is the same visit, for a version is never drawn twice. What is not there any more (held, offered again, moved,
-- settled before) is not touched: settle judges it.
-- The versions are in rising order, and what else is told of the runs is in the same order: so a row finds its run by a
-- binary search. A join would scan the table once a run, and keep a copy of each column.
-- From `bundle_from` on (null: never) runs of one kin become one row of history, a bundle: of a queue and priority, at
-- their first attempt, without group and result, under keys that are their ids and begin alike. All others have a row each.
-- Locks visit rows in the order of their addresses: those of fresh keys rise with them, and so do history's index entries.
-- Waits at most lock_timeout for one. Returns how many were settled, and their runs if not all were.
with given as materialized (
  select %(versions)s::text::bigint[] as versions, %(runs)s::text::bigint[] as runs, %(started)s::text::bigint[] as started,
    %(took)s::text::bigint[] as took
),
gone as (
  delete from mainspring.visit v
  where v.ctid = any(%(addresses)s::text::tid[])
    and v.version = (select versions from given)[width_bucket(v.version, (select versions from given))]
    and (v.pass is null or v.pass = (select runs from given)[width_bucket(v.version, (select versions from given))])
  returning width_bucket(v.version, (select versions from given)) as n, v.queue, v.key, v.id, v.grp, v.priority, v.attempt,
    v.due_at, v.payload, v.created_at,
    case when %(bundle_from)s::bigint is not null and %(results)s::text is null and v.attempt = 0 and v.grp is null
      and v.key = v.id::text and pg_column_size(v.payload) <= %(payload_most)s::integer then left(v.key, 8) end as kin
),
bundle as (
  insert into mainspring.history_bundle (day, queue, priority, worker_id, kin, first_key, last_key, first_end, last_end, size,
    took_us, runs, ids, due_at, created_at, started_us, took, payloads)
  select date 'epoch' + (min(r.started) / 86400000000)::integer, r.queue, r.priority, %(worker_id)s::uuid, r.kin,
    min(r.key collate "C"), max(r.key collate "C"),
    to_timestamp(min(r.started + r.took) / 1e6::double precision), to_timestamp(max(r.started + r.took) / 1e6::double precision),
    count(*), sum(r.took)::bigint, array_agg(r.run), array_agg(r.id), array_agg(r.due_at), array_agg(r.created_at),
    array_agg(r.started), array_agg(r.took), array_agg(r.payload)
  from (
    select (select runs from given)[g.n] as run, (select started from given)[g.n] as started,
      (select took from given)[g.n] as took, g.queue, g.priority, g.kin, g.key, g.id, g.due_at, g.created_at, g.payload
    from gone g
    where g.kin is not null
  ) r
  group by r.queue, r.priority, r.kin
  having count(*) >= %(bundle_from)s::bigint
  returning queue, priority, kin
),
story as (
  insert into mainspring.history_run (day, run, id, queue, key, grp, priority, attempt, outcome, superseded, worker_id,
    created_at, due_at, started_at, ended_at, duration_ms, payload, result)
  select date 'epoch' + ((select started from given)[g.n] / 86400000000)::integer, (select runs from given)[g.n], g.id, g.queue,
    g.key, g.grp, g.priority, least(g.attempt, 2147483646) + 1, 'done', false, %(worker_id)s::uuid, g.created_at, g.due_at,
    to_timestamp((select started from given)[g.n] / 1e6::double precision),
    to_timestamp(((select started from given)[g.n] + (select took from given)[g.n]) / 1e6::double precision),
    (select took from given)[g.n] / 1e3::double precision, g.payload, ((select %(results)s::text::jsonb) ->> g.n - 1)::jsonb
  from gone g
  where g.kin is null or (g.queue, g.priority, g.kin) not in (select queue, priority, kin from bundle)
)
select count(*) as settled,
  case when count(*) < %(count)s::bigint then (select array_agg((select runs from given)[n]) from gone) end as runs
from gone
