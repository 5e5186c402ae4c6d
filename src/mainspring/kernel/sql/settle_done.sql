-- Settle runs that are done and have nothing more to say: the hot form of settle, for visits that nobody has touched since
-- they were read. Each row is found by the address at which it was read; that its version is still the one that was read says
-- that it is the same visit, for a version is never drawn twice. What is not there any more (held, offered again, moved,
-- settled before) is not touched: settle judges it.
-- Locks visit rows in the order of the items, which is that of their reading: they lie so in the table, and their keys go so
-- into history's index. Whoever locks the same rows in another order is given way to by the short lock_timeout.
-- Answers how many were settled, and their runs if not all were.
with gone as (
  delete from mainspring.visit v
  using rows from (
    unnest(%(addresses)s::text::tid[]), unnest(%(versions)s::text::bigint[]), unnest(%(runs)s::text::bigint[]),
    unnest(%(started)s::text::bigint[]), unnest(%(took)s::text::bigint[]), json_array_elements_text(%(results)s::text::json)
  ) as i(address, version, run, started, took, result)
  where v.ctid = i.address and v.version = i.version and (v.pass is null or v.pass = i.run)
  returning i.run, timestamptz 'epoch' + i.started * interval '1 microsecond' as started_at, i.took, i.result,
    v.queue, v.key, v.id, v.grp, v.priority, v.attempt, v.due_at, v.payload, v.created_at
),
story as (
  insert into mainspring.history (day, run, id, queue, key, grp, priority, attempt, outcome, superseded, worker_id,
    created_at, due_at, started_at, ended_at, duration_ms, payload, result)
  select (g.started_at at time zone 'UTC')::date, g.run, g.id, g.queue, g.key, g.grp, g.priority, g.attempt + 1, 'done', false,
    %(worker_id)s::uuid, g.created_at, g.due_at, g.started_at, g.started_at + g.took * interval '1 microsecond',
    g.took / 1000.0::double precision, g.payload, g.result::jsonb
  from gone g
  returning run
)
select count(*) as settled, case when count(*) < %(count)s::bigint then array_agg(run) end as runs from story
