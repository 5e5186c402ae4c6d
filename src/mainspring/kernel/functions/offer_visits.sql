-- Offer visits of one queue from SQL: add each, or merge it into the one that is there, by the kernel's rule (offer.sql): a new
-- version always, the earlier time (never a shorter backoff), the higher priority, payloads united. Keys that no visit can have
-- (null, empty, over 1300 bytes) are left out with a warning: a user's write must not fail for them. The token is made of the
-- fresh id, which is as random as one of its own, and drawn once: a draw may cost as much as an index.
-- Upserts in (shard, key) order. Answers how many were offered; wakes nobody.
create or replace function mainspring.offer_visits(queue text, keys text[], payloads jsonb[], priority integer default 5)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  unfit integer;
  count integer;
begin
  insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
  select distinct on (1, 2) mainspring.shard(i.key, s.shard_count), i.key, offer_visits.queue, i.id, offer_visits.priority,
    mainspring.now(), uuid_hash_extended(i.id, 0), i.payload, mainspring.now(), mainspring.now()
  from (select u.key, u.payload, gen_random_uuid() as id from unnest(keys, payloads) as u(key, payload)) i, mainspring.install s
  where octet_length(i.key) between 1 and 1300
  order by 1, 2
  on conflict on constraint visit_pkey do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    priority = greatest(v.priority, excluded.priority),
    payload = v.payload || excluded.payload,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at;
  get diagnostics count = row_count;
  select count(*) into unfit from unnest(keys) as i(key) where i.key is null or octet_length(i.key) not between 1 and 1300;
  if unfit > 0 then
    raise warning 'mainspring: % of % keys cannot be a visit''s key in queue %: they are null, empty or longer than 1300 bytes',
      unfit, cardinality(keys), quote_literal(queue);
  end if;
  return count;
end
$$;

-- The same for one visit, and tell sleeping workers if asked to: only when it was not waiting already, for then somebody has told
-- them. If it has waited for over a second, perhaps nobody has: whoever offered it may have looked long before the commit, when
-- all were awake. Called with a search path that has pg_catalog first.
-- Answers whether it was offered.
create or replace function mainspring.offer_visit(queue text, key text, payload jsonb, priority integer, notify boolean)
  returns boolean
  language plpgsql volatile
  as $$
declare
  fresh constant uuid := gen_random_uuid();
  due timestamptz;
begin
  if key is null or octet_length(key) not between 1 and 1300 then
    raise warning 'mainspring: 1 of 1 keys cannot be a visit''s key in queue %: they are null, empty or longer than 1300 bytes',
      quote_literal(queue);
    return false;
  end if;
  insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
  values (mainspring.shard(offer_visit.key, (select i.shard_count from mainspring.install i)), offer_visit.key, offer_visit.queue,
    fresh, offer_visit.priority, mainspring.now(), uuid_hash_extended(fresh, 0), offer_visit.payload, mainspring.now(), mainspring.now())
  on conflict on constraint visit_pkey do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    priority = greatest(v.priority, excluded.priority),
    payload = v.payload || excluded.payload,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at
  returning v.due_at into due;
  if notify and (due = mainspring.now() or due < mainspring.now() - interval '1 second') then
    perform mainspring.wake(queue, due);
  end if;
  return true;
end
$$;

-- The same for one visit at a time that is given; its key must be fit. Wakes who sleeps. Locks the visit that is there.
-- Returns whether there was none, or it is due earlier now.
create or replace function mainspring.offer_visit_at(queue text, key text, payload jsonb, priority integer, due_at timestamptz)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  fresh constant uuid := gen_random_uuid();
  at_shard constant integer := mainspring.shard(offer_visit_at.key, (select i.shard_count from mainspring.install i));
  before timestamptz;
  after timestamptz;
begin
  select v.due_at into before from mainspring.visit v
  where v.shard = at_shard and v.key = offer_visit_at.key and v.queue = offer_visit_at.queue
  for update;
  insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
  values (at_shard, offer_visit_at.key, offer_visit_at.queue, fresh, offer_visit_at.priority, offer_visit_at.due_at,
    uuid_hash_extended(fresh, 0), offer_visit_at.payload, mainspring.now(), mainspring.now())
  on conflict on constraint visit_pkey do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    priority = greatest(v.priority, excluded.priority),
    payload = v.payload || excluded.payload,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at
  returning v.due_at into after;
  perform mainspring.wake(queue, after);
  return before is null or after < before;
end
$$;

-- The same for visits that carry nothing but their keys, due now. One that this very transaction wrote is left alone: nobody can have
-- read it. Versions count up from a random token and ids are digests: random bits are dear. Wakes who sleeps.
create or replace function mainspring.offer_once(queue text, keys text[], priority integer) returns void
  language plpgsql volatile                            -- not sql: that would be planned anew at every call
  set search_path = pg_catalog, pg_temp
  as $$
declare
  earliest timestamptz;
  base constant bigint := mainspring.token() >> 1;
begin
  with offered as (
    insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
    select i.shard, i.key, offer_once.queue, md5(i.key || base)::uuid, offer_once.priority, mainspring.now(),
      base + row_number() over (), '{}', mainspring.now(), mainspring.now()
    from (
      select mainspring.shard(n.key, s.shard_count) as shard, n.key
      from unnest(keys) as n(key), mainspring.install s
      order by 1, 2
    ) i
    on conflict on constraint visit_pkey do update
    set version = excluded.version,
      due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
      priority = greatest(v.priority, excluded.priority),
      payload = v.payload || excluded.payload,
      offered_while_parked = v.offered_while_parked or v.parked_at is not null,
      changed_at = excluded.changed_at
    where v.xmin <> pg_current_xact_id()::xid
    returning v.due_at
  )
  select min(o.due_at) into earliest from offered o;
  if earliest is not null then
    perform mainspring.wake(queue, earliest);
  end if;
end
$$;
