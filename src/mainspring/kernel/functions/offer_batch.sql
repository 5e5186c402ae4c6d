-- Offer visits of any queues from within a statement that writes other tables too: a layer's, which then needs one round trip. Add
-- each, or merge it by the one rule (offer.sql), and wake who sleeps. Versions count up from a random token: random bits are dear.
-- Upserts in (shard, key, queue) order; no visit may be named twice. Returns how many were offered.
create or replace function mainspring.offer_batch(
  shards integer[], keys text[], queues text[], ids uuid[], priorities integer[], due_ats timestamptz[], payloads jsonb[], token bigint
) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  offered integer;
  item record;
begin
  offered := 0;
  for item in
    with offered as (
      insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
      select i.shard, i.key, i.queue, i.id, i.priority, i.due_at, offer_batch.token + row_number() over (), i.payload,
        mainspring.now(), mainspring.now()
      from (
        select u.* from unnest(shards, keys, queues, ids, priorities, due_ats, payloads)
          as u(shard, key, queue, id, priority, due_at, payload)
        order by u.shard, u.key collate "C", u.queue collate "C"
      ) i
      on conflict on constraint visit_pkey do update
      set version = excluded.version,
        due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
        priority = greatest(v.priority, excluded.priority),
        payload = v.payload || excluded.payload,
        offered_while_parked = v.offered_while_parked or v.parked_at is not null,
        changed_at = excluded.changed_at
      returning v.queue, v.due_at
    )
    select o.queue, min(o.due_at) as due_at, count(*)::integer as n from offered o group by o.queue
  loop
    perform mainspring.wake(item.queue, item.due_at);
    offered := offered + item.n;
  end loop;
  return offered;
end
$$;
