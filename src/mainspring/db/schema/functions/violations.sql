-- What must never be, of visits whose keys lie after one and up to another (null: no bound). A page costs what its rows cost:
-- rides the primary key, by which two visits of one queue and key would be neighbours.
create or replace function mainspring.visit_violations(after text, upto text) returns table (rule text, detail text)
  language sql stable
  as $$
    select r.rule, v.queue || ' ' || v.key
    from mainspring.install i
    cross join mainspring.visit v
    cross join lateral (values
      ('a visit lies outside the shards', v.shard not between 0 and i.shard_count - 1),
      ('a visit lies in a shard that is not its route''s', v.grp is not null and v.shard <> mainspring.shard(v.grp, i.shard_count)),
      ('a visit can never be read: its key, its time or its priority is none',
        v.due_at not between '0001-01-01Z' and '9999-01-01Z' or v.priority not between 0 and 9
          or octet_length(v.key) not between 1 and 1300),
      ('a held visit has no living holder', v.pass is not null and v.held_until is null
        and not exists (select from mainspring.worker w where w.id = v.holder)),
      ('a visit is half held', (v.pass is null) <> (v.started_at is null) or (v.pass is null and v.held_until is not null))
    ) as r(rule, is_broken)
    where (visit_violations.after is null or v.key > visit_violations.after)
      and (visit_violations.upto is null or v.key <= visit_violations.upto)
      and (v.grp is not null or v.pass is not null or v.started_at is not null or v.held_until is not null
        or v.shard not between 0 and i.shard_count - 1 or v.due_at not between '0001-01-01Z' and '9999-01-01Z'
        or v.priority not between 0 and 9
        or octet_length(v.key) not between 1 and 1300)
      and r.is_broken
    union all
    select 'a queue and key has two visits', v.queue || ' ' || v.key
    from mainspring.visit v
    where (visit_violations.after is null or v.key > visit_violations.after)
      and (visit_violations.upto is null or v.key <= visit_violations.upto)
    group by v.key, v.queue
    having count(*) > 1
  $$;

-- The same of history: of the runs of one day, or of all.
create or replace function mainspring.history_violations(day date) returns table (rule text, detail text)
  language sql stable
  as $$
    select 'a run is in history twice', h.run::text
    from (
      select r.run from mainspring.history_run r where history_violations.day is null or r.day = history_violations.day
      union all
      select unnest(p.runs) from mainspring.history_bundle p where history_violations.day is null or p.day = history_violations.day
    ) h
    group by h.run
    having count(*) > 1
  $$;

-- The same of what is neither.
create or replace view mainspring.other_violation as
  select 'a shard has no lease row' as rule, p.pool || ' ' || n as detail
    from (select distinct pool from mainspring.lease where strpos(pool, chr(31)) = 0) p, mainspring.install,
      generate_series(0, shard_count - 1) n
    where not exists (select from mainspring.lease l where l.pool = p.pool and l.shard = n)
  union all
  select 'parts add up to more than the limit', p.queue
    from mainspring.part p join mainspring.queue q on q.name = p.queue
    group by p.queue, q.concurrency, q.rate
    having sum(p.size) > q.concurrency or sum(p.rate) > q.rate * 1.000001
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

-- What must never be. Empty when the engine is at rest; the tests look at it after every fault.
create or replace view mainspring.violation as
  select rule, detail from mainspring.visit_violations(null, null)
  union all
  select rule, detail from mainspring.history_violations(null)
  union all
  select rule, detail from mainspring.other_violation;
