-- Put past tasks back: insert each anew, due now, with its payload, group and id (or a fresh one). A key that was the
-- id stays the id. One whose key is live is left, and one that ran again before the time asked for is put back once only.
-- Inserts in (shard, key, queue) order, the newest of a key first. Answers one row a run: put back, live or repeated.
-- Rides the primary key of runs and history_bundle_key; a bundle is opened once for all that are in it.
with asked as materialized (
  select i.key, i.run, i.day
  from unnest(%(keys)s::text[], %(runs)s::bigint[], %(days)s::date[]) as i(key, run, day)
),
place as materialized (
  select distinct p.tableoid, p.ctid
  from asked a
  cross join lateral (
    select p.tableoid, p.ctid
    from mainspring.history_bundle p
    where p.kin = left(a.key, 8) and p.last_key >= a.key and p.first_key <= a.key
  ) p
),
bundled as materialized (
  select r.run, p.queue, r.id, p.priority, r.payload, r.ended_at
  from place l
  cross join lateral (select p.* from mainspring.history_bundle p where p.tableoid = l.tableoid and p.ctid = l.ctid) p
  cross join lateral mainspring.runs_of(p) r
  where (r.id::text in (select a.key from asked a)) is true  -- by a table of hashes: a kin may have a million runs
),
found as materialized (
  select h.run, h.queue, h.key as was_key, h.id as was_id, h.grp, h.priority, h.payload, h.ended_at
  from asked a
  cross join lateral (
    select h.* from mainspring.history_run h where h.key = a.key and h.run = a.run and h.day = a.day
  ) h
  union all
  select p.run, p.queue, p.id::text, p.id, null, p.priority, p.payload, p.ended_at
  from bundled p
  where (p.run in (select a.run from asked a)) is true
),
past as materialized (
  select h.run, h.queue, h.was_key, h.was_id, h.grp, h.priority, h.payload, h.ended_at, f.id,
    case when h.was_key = h.was_id::text then f.id::text else h.was_key end as key,
    exists (
      select from mainspring.history_run l
      where l.key = h.was_key and l.queue = h.queue and l.id = h.was_id and l.outcome in ('done', 'cancelled', 'expired')
        and not l.superseded and l.ended_at <= %(until)s::timestamptz and (l.ended_at, l.run) > (h.ended_at, h.run)
    ) or (h.ended_at, h.run) < (
      select p.ended_at, p.run
      from bundled p
      where p.id = h.was_id and p.queue = h.queue and p.ended_at <= %(until)s::timestamptz and h.was_key = h.was_id::text
      order by p.ended_at desc, p.run desc
      limit 1
    ) is true as repeated
  from found h
  cross join lateral (select case when %(fresh_ids)s::boolean then mainspring.uuid7() else h.was_id end as id offset 0) f
),
placed as materialized (
  select p.run, p.queue, p.key, p.id, p.grp, p.priority, p.payload, p.ended_at,
    mainspring.shard(coalesce(p.grp, p.key), n.shard_count) as shard
  from past p, mainspring.install n
  where not p.repeated
),
fresh as (
  insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, version, payload, created_at, changed_at)
  select shard, key, queue, id, grp, priority, mainspring.now(), mainspring.token(), payload, mainspring.now(), mainspring.now()
  from placed
  order by shard, key, queue, ended_at desc
  on conflict (shard, key, queue) do nothing
  returning queue, key, id
),
hint as materialized (
  select mainspring.wake(queue, mainspring.now()) from (select distinct queue from fresh) f
)
select p.run, p.queue, p.key, p.id,
  case when p.repeated then 'repeated' when f.id is not null then 'put back' else 'live' end as answer,
  (select count(*) from hint) as hints
from past p
left join fresh f on f.queue = p.queue and f.key = p.key and f.id = p.id
