-- Settle runs: write the outcome of each to its visit, and its history, once.
-- A visit's version is a token that one settle consumes. Same version: the outcome is written (done, cancelled and
-- expired delete, and whatever ends the visit; again, retry and parked write the run as the new version). Another version: the visit was offered
-- meanwhile and stays due; only this run's own hold is cleared and a retry keeps its backoff. A visit that another
-- run holds is not touched (unless the queue takes the first result that comes), nor is one that was added under the
-- same key after the run's own was gone.
-- Locks visit rows in the order of the items, which is (shard, key, queue); waits at most lock_timeout for one. Answers
-- how many were settled now (as number 0) and one row for each of the others: settled (before, by this run), superseded,
-- changed (just now: send it again) or gone (it no longer counts).
-- What was called off while it ran is over whatever its run came to; a result stands, all else is 'cancelled'.
-- What was postponed ('kept') is again with its attempts and crashes; a crash of its peer counts as a worker's death.
-- Sent twice, it changes nothing more. Rides the primary key. Runs of quiet queues leave history only when they fail.
with item as materialized (
  select i.n, i.shard, i.key, i.queue, i.version, i.run, i.started, i.seconds, coalesce(i.any_pass, false) as any_pass,
    i.id as visit_id, i.result, d.detail,
    case when d.detail is null then 'done' else coalesce(d.detail ->> 'outcome', 'done')::mainspring.outcome end as outcome,
    d.detail is not null and coalesce((d.detail ->> 'ends')::boolean, false) as ends, (d.detail ->> 'attempt')::integer as attempt,
    d.detail is not null and coalesce((d.detail ->> 'kept')::boolean, false) as kept,
    d.detail is not null and coalesce((d.detail ->> 'crash')::boolean, false) as crash,
    case when d.detail is not null then greatest(mainspring.now(), coalesce((d.detail ->> 'due_at')::timestamptz,
      mainspring.now() + make_interval(secs => coalesce((d.detail ->> 'delay')::double precision, 0)))) end as due_at
  from rows from (
    unnest(%(shards)s::text::integer[]), json_array_elements_text(%(keys)s::text::json),
    json_array_elements_text(%(queues)s::text::json), unnest(%(versions)s::text::bigint[]),
    unnest(%(runs)s::text::bigint[]), unnest(%(started)s::text::double precision[]),
    unnest(%(seconds)s::text::double precision[]), unnest(%(any_pass)s::text::boolean[]),
    json_array_elements_text(%(results)s::text::json), json_array_elements_text(%(details)s::text::json),
    unnest(%(ids)s::text::uuid[])
  ) with ordinality as i(shard, key, queue, version, run, started, seconds, any_pass, result, detail, id, n)
  cross join lateral (select i.detail::jsonb as detail offset 0) d  -- parsed once, not wherever it is read
),
gone as (
  delete from mainspring.visit v
  using item i
  where v.shard = i.shard and v.key = i.key and v.queue = i.queue
    and v.version = i.version and (v.pass is null or v.pass = i.run or i.any_pass)
    and (i.outcome in ('done', 'cancelled', 'expired') or i.ends)
  returning i.n, i.run, i.started, i.seconds, i.result, i.detail,
    case when v.called_off is not null and i.outcome <> 'done' and not i.ends then 'cancelled' else i.outcome end as outcome,
    v.queue, v.key, v.id, v.grp, v.priority, v.attempt as failures, v.due_at, v.payload, v.created_at, v.called_off
),
moved as (
  update mainspring.visit v
  set version = i.run, due_at = i.due_at, attempt = coalesce(i.attempt, 0), error = i.detail ->> 'error',
    error_type = case when i.outcome = 'parked' then i.detail ->> 'error_type' end,
    fingerprint = case when i.outcome = 'parked' then i.detail ->> 'fingerprint' end,
    payload = coalesce(i.detail -> 'payload', v.payload),
    crashes = case
      when i.crash then least(v.crashes, 2147483646) + 1
      when i.outcome = 'again' and not i.kept then 0
      else v.crashes
    end,
    parked_at = case
      when i.outcome = 'parked' then mainspring.now()
      when i.crash and least(v.crashes, 2147483646) + 1
        >= coalesce((select q.crash_limit from mainspring.queue q where q.name = v.queue), 3) then mainspring.now()
    end,
    pass = null, holder = null, started_at = null, held_until = null, changed_at = mainspring.now()
  from item i
  where v.shard = i.shard and v.key = i.key and v.queue = i.queue
    and v.version = i.version and (v.pass is null or v.pass = i.run or i.any_pass)
    and i.outcome in ('again', 'retry', 'parked') and not i.ends and v.called_off is null
  returning i.n, i.run, i.started, i.seconds, i.result, i.detail, i.outcome, v.queue, v.key, v.id, v.grp, v.priority,
    coalesce(i.attempt - 1, 0) as failures, (i.detail ->> 'was_due_at')::timestamptz as due_at, v.payload, v.created_at,
    null::text as called_off
),
settled as not materialized (
  select * from gone union all select * from moved
),
-- The rest, as this statement's snapshot shows it: few, if any.
other as materialized (
  select i.*, v.id, v.grp, v.priority, v.attempt as failures, v.due_at as was_due_at, v.payload, v.created_at,
    case
      when v.id is null or v.id <> i.visit_id then 'gone'
      when v.version = i.run then 'settled'
      when v.pass is not null and v.pass <> i.run and not i.any_pass then 'gone'
      when v.version = i.version then case when v.called_off is null then 'changed' else 'called_off' end
      else 'superseded'
    end as answer
  from item i
  left join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
  where i.n not in (select n from settled)
),
ended as (
  delete from mainspring.visit v
  using other i
  where v.shard = i.shard and v.key = i.key and v.queue = i.queue
    and v.version = i.version and (v.pass is null or v.pass = i.run) and v.called_off is not null
    and i.answer = 'called_off' and i.outcome in ('again', 'retry', 'parked')
  returning i.n, i.run, i.started, i.seconds, i.result, i.detail, 'cancelled'::mainspring.outcome as outcome,
    v.queue, v.key, v.id, v.grp, v.priority, v.attempt as failures, v.due_at, v.payload, v.created_at, v.called_off
),
freed as (
  update mainspring.visit v
  set due_at = case when i.outcome in ('retry', 'parked') then greatest(v.due_at, i.due_at) else v.due_at end,
    attempt = case when i.outcome in ('retry', 'parked') then greatest(v.attempt, i.attempt) else v.attempt end,
    called_off = null, expires_at = case when v.called_off is null then v.expires_at end,
    pass = case when v.pass = i.run then null else v.pass end,
    holder = case when v.pass = i.run then null else v.holder end,
    started_at = case when v.pass = i.run then null else v.started_at end,
    held_until = case when v.pass = i.run then null else v.held_until end,
    changed_at = mainspring.now()
  from other i
  where v.shard = i.shard and v.key = i.key and v.queue = i.queue
    and v.id = i.id and i.answer = 'superseded' and v.version <> i.version and v.version <> i.run
    and (v.pass = i.run or (v.pass is null and i.outcome in ('retry', 'parked')))
),
story as (
  insert into mainspring.history_run (day, run, id, queue, key, grp, priority, attempt, outcome, superseded, worker_id,
    created_at, due_at, started_at, ended_at, duration_ms, error_type, error, payload, result, searchable)
  select (to_timestamp(s.started) at time zone 'UTC')::date, s.run, s.id, s.queue, s.key, s.grp, s.priority,
    least(s.failures, 2147483646) + 1, s.outcome, s.superseded, %(worker_id)s::uuid, s.created_at, s.due_at, to_timestamp(s.started),
    to_timestamp(s.started + s.seconds), s.seconds * 1000, s.detail ->> 'error_type',
    coalesce(case when s.outcome = 'cancelled' then s.called_off end, s.detail ->> 'error'), s.payload, s.result::jsonb,
    case when s.detail ? 'searchable' then array(select jsonb_array_elements_text(s.detail -> 'searchable')) end
  from (
    select *, false as superseded from settled
    union all
    select *, false from ended
    union all
    select n, run, started, seconds, result, detail, outcome, queue, key, id, grp, priority, failures, was_due_at, payload, created_at,
      null, true
    from other o
    where o.answer = 'superseded'
      and not exists (
        select from mainspring.history_run h
        where h.key = o.key and h.run = o.run and h.day = (to_timestamp(o.started) at time zone 'UTC')::date)
      and not exists (select from mainspring.bundles_with(o.key) p where o.run = any(p.runs))
  ) s
  where s.detail is null or s.outcome in ('retry', 'parked') or s.called_off is not null or not coalesce((s.detail ->> 'quiet')::boolean, false)
)
select 0 as n, ((select count(*) from settled) + (select count(*) from ended))::text as answer
union all
select n::integer, case answer when 'called_off' then 'changed' else answer end from other where n not in (select n from ended)
