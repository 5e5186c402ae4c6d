-- The state of each visit as an enumerated type (T4). A run shorter than its queue's hold_after shows as waiting,
-- with the worker whose lease covers it. attempt is that of the run under way or to come, of a parked one its last; 1 is the first.
create or replace view mainspring.visit_status as
  select v.queue, v.key, v.id, v.grp, v.priority,
    case
      when v.parked_at is not null then 'parked'
      when v.pass is not null then 'running'
      when v.due_at > mainspring.now() then 'scheduled'
      else 'waiting'
    end::mainspring.visit_state as state,
    v.due_at, case when v.parked_at is null then v.attempt + 1 else greatest(1, v.attempt) end as attempt, v.crashes, v.work_timeouts, v.holder, case when l.worker_id <> '00000000-0000-0000-0000-000000000000' then l.worker_id else (
      -- The pool is cut: its leases are those of the band that has the queue.
      select b.worker_id from mainspring.band n join mainspring.lease b on b.pool = n.name and b.shard = v.shard
      where n.pool = q.pool and n.queues @> array[v.queue::text] limit 1) end as leased_by, v.started_at, v.held_until,
    v.expires_at, v.parked_at, v.offered_while_parked, v.error, v.payload, v.created_at, v.changed_at, v.shard
  from mainspring.visit v
  left join mainspring.queue q on q.name = v.queue
  left join mainspring.lease l on l.pool = q.pool and l.shard = v.shard;

-- What must never be. Empty when the engine is at rest; the tests look at it after every fault.
create or replace view mainspring.violation as
  select 'a queue and key has two visits' as rule, queue || ' ' || key as detail
    from mainspring.visit group by queue, key having count(*) > 1
  union all
  select 'a visit lies outside the shards', queue || ' ' || key
    from mainspring.visit, mainspring.install where shard not between 0 and shard_count - 1
  union all
  select 'a visit lies in a shard that is not its route''s', queue || ' ' || key
    from mainspring.visit, mainspring.install
    where grp is not null and shard <> mainspring.shard(grp, shard_count)
  union all
  select 'a visit can never be read: its key, its time or its priority is none', queue || ' ' || key
    from mainspring.visit
    where not isfinite(due_at) or priority not between 0 and 9 or octet_length(key) not between 1 and 1300
  union all
  select 'a shard has no lease row', p.pool || ' ' || n
    from (select distinct pool from mainspring.lease where strpos(pool, chr(31)) = 0) p, mainspring.install,
      generate_series(0, shard_count - 1) n
    where not exists (select from mainspring.lease l where l.pool = p.pool and l.shard = n)
  union all
  select 'a held visit has no living holder', queue || ' ' || key
    from mainspring.visit v
    where pass is not null and held_until is null and not exists (select from mainspring.worker w where w.id = v.holder)
  union all
  select 'a visit is half held', queue || ' ' || key
    from mainspring.visit where (pass is null) <> (started_at is null) or (pass is null and held_until is not null)
  union all
  select 'parts add up to more than the limit', p.queue
    from mainspring.part p join mainspring.queue q on q.name = p.queue
    group by p.queue, q.concurrency, q.rate
    having sum(p.size) > q.concurrency or sum(p.rate) > q.rate * 1.000001
  union all
  select 'a run is in history twice', run::text
    from mainspring.history group by run having count(*) > 1
  union all
  select 'a lease belongs to no living worker', pool || ' ' || shard
    from mainspring.lease l
    where worker_id <> '00000000-0000-0000-0000-000000000000' and not exists (select from mainspring.worker w where w.id = l.worker_id)
  union all
  select 'a shard is whole and cut, or neither', l.pool || ' ' || l.shard
    from mainspring.lease l
    where strpos(l.pool, chr(31)) = 0
      and (l.worker_id is not distinct from '00000000-0000-0000-0000-000000000000') <> exists (
        select from mainspring.lease b where b.pool > l.pool and b.pool < l.pool || ' ' and b.shard = l.shard)
  union all
  select 'a queue of a shard is in two bands', n.pool || ' ' || b.shard || ' ' || u.queue
    from mainspring.band n join mainspring.lease b on b.pool = n.name cross join unnest(n.queues) as u(queue)
    group by n.pool, b.shard, u.queue having count(*) > 1
  union all
  select 'a visit is of a stage that its kind never had', v.queue || ' ' || v.key
    from mainspring.kind k
    join mainspring.visit v on v.queue >= k.name || '/' and v.queue < k.name || '0'
    where not exists (
      select from mainspring.stage s where s.kind = k.name and v.queue in (k.name || '/' || s.name, k.name || '/' || s.name || '~'))
  union all
  select 'a visit of a crawl goes before live ones', v.queue || ' ' || v.key
    from mainspring.kind k
    join mainspring.visit v on (v.queue >= k.name || '/' and v.queue < k.name || '0' and v.queue like '%~') or v.queue = k.name || '~'
    where v.priority >= 5
  union all
  select 'a visit or a state is of a document that is not there', x.at
    from (
      select v.queue || ' ' || v.key as at, k.name, v.key
        from mainspring.kind k
        join mainspring.visit v on v.queue in (k.name, k.name || '~') or (v.queue >= k.name || '/' and v.queue < k.name || '0')
        where k.source = 'document' and v.parked_at is null and v.due_at > mainspring.now()
      union all
      select s.kind || '/' || s.stage || ' ' || s.key, k.name, s.key
        from mainspring.kind k join mainspring.state s on s.kind = k.name where k.source = 'document'
    ) x
    where not exists (select from mainspring.document d where d.kind = x.name and d.key = x.key)
  union all
  select 'an event is of a version that its document does not have yet', e.kind || ' ' || e.key
    from mainspring.event e
    join mainspring.kind k on k.name = e.kind and k.source = 'document'
    join mainspring.document d on d.kind = e.kind and d.key = e.key
    where e.what = 'saved' and e.entity_version > d.version
  union all
  select 'a delivery has no event', d.kind || '!' || d.consumer || ' ' || d.key
    from mainspring.delivery d
    where not exists (
      select from mainspring.event e where e.shard = d.shard and e.kind = d.kind and e.key = d.key and e.number = d.number)
  union all
  select 'an event waits for nobody', e.kind || ' ' || e.key
    from mainspring.event e
    where not exists (
      select from mainspring.consumer c
      join mainspring.delivery d on d.shard = e.shard and d.kind = e.kind and d.consumer = c.name and d.key = e.key and d.number = e.number
      where c.kind = e.kind)
  union all
  select 'a delivery has no visit that would make it', d.kind || '!' || d.consumer || ' ' || d.key
    from mainspring.delivery d
    where not exists (
      select from mainspring.visit v where v.shard = d.shard and v.key = d.key and v.queue = d.kind || '!' || d.consumer)
  union all
  select 'an admitted firing has no run visit', t.task
    from mainspring.reactive_task t
    where t.firing is not null and t.admitted_at is not null and not exists (
      select from mainspring.visit v
      where v.key = t.task and v.queue = 'mainspring.run.' || t.pool and v.payload ->> 'firing' = t.firing::text)
  union all
  select 'a pool has more admitted firings than its cap', p.pool
    from mainspring.reactive_pool p
    where p.cap < (select count(*) from mainspring.reactive_task t where t.pool = p.pool and t.admitted_at is not null)
  union all
  select 'a param that a trigger names is not in the index, or one that it does not name is', t.task
    from mainspring.reactive_task t
    join mainspring.definition d on d.fingerprint = t.fingerprint
    where array(select u.param from mainspring.uses u where u.task = t.task order by 1)
      is distinct from array(
        select distinct ((x ->> 0) || '.' || (x ->> 1)) collate "C"
        from (select jsonb_path_query(d.tree, '$.**.param') union all select jsonb_path_query(d.tree, '$.**.behind')) p(x)
        order by 1)
  union all
  select 'the newest change of a param is not its value', p.name
    from mainspring.param p
    join lateral (select l.num, l.ver from mainspring.param_log l where l.param = p.name order by l.id desc limit 1) l on true
    where (l.num, l.ver) is distinct from (p.num, p.ver);

-- Reactive tasks in numbers, a row a pool: for dashboards and alerts. `missed` is what to wake somebody for (R14).
create or replace view mainspring.reactive_load as
  select t.pool, count(*) as tasks,
    count(*) filter (where t.firing is not null and t.admitted_at is null) as ready,
    count(*) filter (where t.admitted_at is not null) as running,
    count(*) filter (where t.failures > 0) as failing,
    count(*) filter (where t.missed_at is not null) as missed,
    count(*) filter (where t.paused_at is not null) as paused,
    count(*) filter (where t.retired_at is not null) as retired,
    coalesce(extract(epoch from mainspring.clock() - min(t.fired_at) filter (where t.admitted_at is null))::double precision, 0)
      as oldest_ready_seconds
  from mainspring.reactive_task t
  group by t.pool;
