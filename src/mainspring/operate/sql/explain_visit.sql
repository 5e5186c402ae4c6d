-- Everything that decides when a visit runs. Locks nothing. No row: there is no such visit.
-- Rides the primary key, whose last column is the shard: a visit's route is not known from its key. Held rows of its shard ride
-- visit_held; those of the whole queue are counted only where it has a limit.
select v.queue, v.key, v.id, v.grp, v.priority, v.shard, v.due_at, v.attempt, v.crashes, v.error, v.parked_at,
  v.offered_while_parked, case when v.called_off is null then v.expires_at end as expires_at, v.called_off, v.pass is not null as held, v.holder, h.host as holder_host, h.process as holder_process,
  h.id is not null as holder_lives,
  greatest(0, extract(epoch from mainspring.now() - h.beat_at))::double precision as holder_silent,
  v.started_at, v.held_until, mainspring.now() as now,
  q.name is not null as known, q.pool, q.kind, case when q.paused_until is null or q.paused_until > mainspring.now() then q.paused_at end as paused_at,
  q.paused_until, q.pause_reason, q.concurrency, q.rate, q.group_concurrency, q.group_rate,
  o.id as owner, o.host as owner_host, o.process as owner_process,
  greatest(0, extract(epoch from mainspring.now() - o.beat_at))::double precision as owner_silent,
  o.queues @> array[v.queue::text] as owner_serves,
  exists (
    select from mainspring.reach r
    where r.worker_id = case when band.worker_id is null then l.suspect_of else band.suspect_of end
      and r.queue = v.queue and r.priority = v.priority and r.due_at >= v.due_at) as suspect,
  (select count(*) from mainspring.worker w where w.pool = q.pool) as pool_workers,
  (select count(*) from mainspring.worker w where w.pool = q.pool and v.queue = any(w.queues)) as workers,
  (select count(*) from mainspring.worker w where w.pool = q.pool and w.code is null) as workers_before,
  case when q.concurrency is not null then (
    select count(*) from mainspring.visit r where r.pass is not null and r.queue = v.queue) end as running,
  g.running as group_running, g.key as group_key, g.holder as group_holder, g.started_at as group_started_at,
  t.queue as turn_queue, t.holder as turn_holder, t.started_at as turn_started_at,
  (select count(*) from (
    select from mainspring.visit a
    where a.queue = v.queue and a.pass is null and a.parked_at is null and a.due_at <= mainspring.now()
      and (a.priority > v.priority or (a.priority = v.priority and (a.due_at, a.key) < (v.due_at, v.key)))
    limit 10000) ahead) as ahead,
  (select json_agg(json_build_object('host', w.host, 'process', w.process, 'since', r ->> 'started_at',
      'reason', r ->> 'reason') order by r ->> 'started_at')::text
    from mainspring.worker w
    cross join lateral jsonb_array_elements(w.hanging) r
    where w.hanging <> '[]' and r ->> 'queue' = v.queue and r ->> 'key' = v.key) as hanging,
  (select json_agg(e)::text from jsonb_array_elements(o.away) e
    where o.away <> '[]' and e -> 'queues' @> to_jsonb(v.queue::text)) as away,
  (select json_agg(json_build_object('queue', b.queue, 'group', nullif(b.grp, ''), 'opened_at', b.opened_at, 'until', b.until,
      'is_open', b.until > mainspring.now(), 'at_once', b.at_once, 'failures', b.failures, 'reason', b.reason) order by b.grp)::text
    from mainspring.breaker b
    where b.queue = v.queue and b.grp in ('', v.grp) and b.opened_at is not null) as breakers
from mainspring.visit v
left join mainspring.queue q on q.name = v.queue
left join mainspring.worker h on h.id = v.holder
left join mainspring.lease l on l.pool = q.pool and l.shard = v.shard
left join lateral (  -- the pool is cut: the lease of the band that has the queue counts
  select b.worker_id, b.suspect_of
  from mainspring.band n
  join mainspring.lease b on b.pool = n.name and b.shard = v.shard
  where l.worker_id = '00000000-0000-0000-0000-000000000000' and n.pool = q.pool and n.queues @> array[v.queue::text]
  limit 1
) band on true
left join mainspring.worker o on o.id = coalesce(band.worker_id, l.worker_id)
left join lateral (
  select count(*) over () as running, r.key, r.holder, r.started_at
  from mainspring.visit r
  where r.pass is not null and r.shard = v.shard and r.queue = v.queue and r.grp = v.grp and r.key <> v.key
  order by r.started_at
  limit 1
) g on true
left join lateral (
  select r.queue, r.holder, r.started_at
  from mainspring.visit r
  join mainspring.queue rq on rq.name = r.queue and rq.turns = q.turns
  where r.pass is not null and r.shard = v.shard and r.key = v.key and r.queue <> v.queue
  limit 1
) t on true
where v.key = any(%(keys)s::text[])
  and (%(grp)s::text is null or v.grp = %(grp)s::text)
  and v.queue = %(queue)s::text
