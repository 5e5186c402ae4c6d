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
