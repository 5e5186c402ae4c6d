-- Visits of some queues are those of others from here on, one for one. Each keeps what it has come to; one that is in the new queue
-- already takes it in like an offer, by the one rule (offer.sql). Runs under way in a former queue count for nothing, and are run
-- again. Reads the whole table: no index has every visit of a queue. Upserts in (shard, key, queue) order; wakes nobody. Returns how many.
create or replace function mainspring.move_visits(formers text[], queues text[]) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  count integer;
begin
  with moved as (
    delete from mainspring.visit v where v.queue = any (formers) returning v.*
  )
  insert into mainspring.visit as v (shard, key, queue, id, grp, priority, due_at, expires_at, version, attempt, crashes, parked_at,
    offered_while_parked, error, payload, created_at, changed_at)
  select m.shard, m.key, queues[array_position(formers, m.queue::text)], m.id, m.grp, m.priority, m.due_at, m.expires_at,
    uuid_hash_extended(gen_random_uuid(), 0), m.attempt, m.crashes, m.parked_at, m.offered_while_parked, m.error, m.payload,
    m.created_at, mainspring.now()
  from moved m
  order by m.shard, m.key, m.queue
  on conflict on constraint visit_pkey do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    priority = greatest(v.priority, excluded.priority),
    payload = v.payload || excluded.payload,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at;
  get diagnostics count = row_count;
  return count;
end
$$;
