-- Insert one visit if its key is free: the hot form of insert_new. No row: the key is taken.
with fresh as (
  insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, expires_at, version, payload, created_at, changed_at)
  values (%(shard)s::integer, %(key)s::text, %(queue)s::text, %(id)s::uuid, %(grp)s::text, %(priority)s::smallint,
    greatest(coalesce(%(due_at)s::timestamptz, mainspring.now()), mainspring.now()), %(expires_at)s::timestamptz,
    %(version)s::bigint, %(payload)s::text::jsonb, mainspring.now(), mainspring.now())
  on conflict (shard, key, queue) do nothing
  returning id, due_at
)
select id,
  case when exists (select from mainspring.worker where asleep) then mainspring.wake(%(queue)s::text, due_at) end as hint
from fresh
