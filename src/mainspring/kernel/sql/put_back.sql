-- Put past tasks back: insert each anew, due now, with its payload, group and id (or a fresh one). A key that was the
-- id stays the id. One whose key is live is left, and one that ran again before the time asked for is put back once only.
-- Inserts in (shard, key, queue) order, the newest of a key first. Answers one row a run: put back, live or repeated.
-- Rides history's primary key.
with past as materialized (
  select h.run, h.queue, h.key as was_key, h.id as was_id, h.grp, h.priority, h.payload, h.ended_at, f.id,
    case when h.key = h.id::text then f.id::text else h.key end as key,
    exists (
      select from mainspring.history l
      where l.key = h.key and l.queue = h.queue and l.id = h.id and l.outcome in ('done', 'cancelled', 'expired')
        and not l.superseded and l.ended_at <= %(until)s::timestamptz and (l.ended_at, l.run) > (h.ended_at, h.run)
    ) as repeated
  from unnest(%(keys)s::text[], %(runs)s::bigint[], %(days)s::date[]) as i(key, run, day)
  join mainspring.history h on h.key = i.key and h.run = i.run and h.day = i.day
  cross join lateral (select case when %(fresh_ids)s::boolean then mainspring.uuid7() else h.id end as id offset 0) f
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
