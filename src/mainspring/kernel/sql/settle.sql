-- Settle runs: write the outcome of each to its visit, and its history, once.
-- A visit's version is a token that one settle consumes. Same version: the outcome is written (done, cancelled and
-- expired delete; again, retry and parked write the run as the new version). Another version: the visit was offered
-- meanwhile and stays due; only this run's own hold is cleared and a retry keeps its backoff. A visit that another
-- run holds is not touched (unless the queue takes the first result that comes).
-- Locks visit rows in (shard, key, queue) order and skips those that others have locked. Answers one row a run:
-- settled, superseded, locked (send it again) or gone (it no longer counts). Sent twice, it changes nothing more.
-- Rides the primary key.
with item as materialized (
  select i.n, i.shard, i.key, i.queue, i.version, i.run, i.started, i.seconds, i.result,
    coalesce(d.detail ->> 'outcome', 'done')::mainspring.outcome as outcome,
    greatest(coalesce((d.detail ->> 'due_at')::timestamptz,
      mainspring.now() + make_interval(secs => coalesce((d.detail ->> 'delay')::double precision, 0))), mainspring.now()) as due_at,
    coalesce((d.detail ->> 'any_pass')::boolean, false) as any_pass,
    (d.detail ->> 'attempt')::integer as attempt, d.detail ->> 'error_type' as error_type, d.detail ->> 'error' as error,
    case when d.detail ? 'searchable' then array(select jsonb_array_elements_text(d.detail -> 'searchable')) end as searchable
  from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[], %(versions)s::bigint[], %(runs)s::bigint[],
    %(started)s::double precision[], %(seconds)s::double precision[], %(results)s::text[], %(details)s::text[])
    with ordinality as i(shard, key, queue, version, run, started, seconds, result, detail, n)
  cross join lateral (select i.detail::jsonb as detail) d
),
found as materialized (
  select i.*, v.id, v.grp, v.priority, v.attempt as attempts, v.due_at as was_due_at, v.payload, v.created_at,
    v.version = i.version and (v.pass is null or v.pass = i.run or i.any_pass) as same,
    v.version = i.run as repeated,
    v.pass is not null and v.pass <> i.run and not i.any_pass as held_by_other,
    coalesce(v.pass = i.run, false) as held
  from item i
  join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
  order by v.shard, v.key, v.queue
  for update of v skip locked
),
gone as (
  delete from mainspring.visit v
  using found f
  where v.shard = f.shard and v.key = f.key and v.queue = f.queue
    and f.same and f.outcome in ('done', 'cancelled', 'expired')
),
moved as (
  update mainspring.visit v
  set version = f.run, due_at = f.due_at, attempt = coalesce(f.attempt, 0), error = f.error,
    crashes = case when f.outcome = 'again' then 0 else v.crashes end,
    parked_at = case when f.outcome = 'parked' then mainspring.now() end,
    pass = null, holder = null, started_at = null, held_until = null, changed_at = mainspring.now()
  from found f
  where v.shard = f.shard and v.key = f.key and v.queue = f.queue
    and f.same and f.outcome in ('again', 'retry', 'parked')
),
freed as (
  update mainspring.visit v
  set due_at = case when f.outcome in ('retry', 'parked') then greatest(v.due_at, f.due_at) else v.due_at end,
    attempt = case when f.outcome in ('retry', 'parked') then greatest(v.attempt, f.attempt) else v.attempt end,
    pass = case when f.held then null else v.pass end,
    holder = case when f.held then null else v.holder end,
    started_at = case when f.held then null else v.started_at end,
    held_until = case when f.held then null else v.held_until end,
    changed_at = mainspring.now()
  from found f
  where v.shard = f.shard and v.key = f.key and v.queue = f.queue
    and not f.same and not f.repeated and not f.held_by_other
    and (f.held or f.outcome in ('retry', 'parked'))
),
story as (
  insert into mainspring.history (day, run, id, queue, key, grp, priority, attempt, outcome, superseded, worker_id,
    created_at, due_at, started_at, ended_at, duration_ms, error_type, error, payload, result, searchable)
  select (to_timestamp(f.started) at time zone 'UTC')::date, f.run, f.id, f.queue, f.key, f.grp, f.priority,
    f.attempts + 1, f.outcome, not f.same, %(worker_id)s::uuid, f.created_at, f.was_due_at, to_timestamp(f.started),
    to_timestamp(f.started + f.seconds), f.seconds * 1000, f.error_type, f.error, f.payload, f.result::jsonb, f.searchable
  from found f
  where f.same or not (f.repeated or f.held_by_other)
  on conflict do nothing
)
select n::integer as n,
  case when same or repeated then 'settled' when held_by_other then 'gone' else 'superseded' end as answer
from found
union all
select i.n::integer,
  case
    when exists (select from mainspring.visit v where v.shard = i.shard and v.key = i.key and v.queue = i.queue) then 'locked'
    else 'gone'
  end
from item i
where i.n not in (select n from found)
