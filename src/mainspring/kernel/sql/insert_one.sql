-- Insert one visit with a fresh key, which nobody can have: the hot form of insert_new. Returns nothing but a hint that was
-- sent: while nobody sleeps there is no row to read. It reads no column of the visit, for roles that may only insert.
with fresh as (
  insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, expires_at, version, payload, created_at, changed_at)
  values (%(shard)s::integer, %(key)s::text, %(queue)s::text, %(id)s::uuid, %(grp)s::text, %(priority)s::smallint,
    greatest(coalesce(%(due_at)s::timestamptz, mainspring.now() + %(delay)s::interval), mainspring.now()),
    %(expires_at)s::timestamptz, %(version)s::bigint, %(payload)s::text::jsonb, mainspring.now(), mainspring.now())
  returning true
)
select mainspring.wake(%(queue)s::text,
  greatest(coalesce(%(due_at)s::timestamptz, mainspring.now() + %(delay)s::interval), mainspring.now()))
from fresh
where exists (select from mainspring.worker where asleep)
  or exists (select from mainspring.sleeper s where s.queue = %(queue)s::text and s.until > pg_catalog.now())
