-- The text of a statement that offers whatever a query says (key, payload), to queue $1 with priority $2, due now: for a trigger that
-- sees the rows of a statement, which nothing but its own text can read. By the one rule (offer.sql). The token is made of the fresh id;
-- keys that no visit can have are left out. The query is code, never a value. Upserts in the order of keys; wakes nobody.
create or replace function mainspring.offering(query text) returns text
  language sql immutable
  set search_path = pg_catalog, pg_temp
  as $outer$
    select format($$
      insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
      select distinct on (2, 1) ('x' || left(encode(sha256(convert_to(c.key, 'UTF8')), 'hex'), 8))::bit(32)::bigint %% i.shard_count,
        c.key collate "C", $1, c.id, $2, i.now, uuid_hash_extended(c.id, 0), c.payload, i.now, i.now
      from (select s.*, gen_random_uuid() as id from (%s) s) c,
        (select shard_count, mainspring.now() as now from mainspring.install) i
      where octet_length(c.key) between 1 and 1300
      order by 2, 1
      on conflict on constraint visit_pkey do update
      set version = excluded.version,
        due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
        priority = greatest(v.priority, excluded.priority),
        payload = v.payload || excluded.payload,
        offered_while_parked = v.offered_while_parked or v.parked_at is not null,
        changed_at = excluded.changed_at
      $$, query)
  $outer$;
