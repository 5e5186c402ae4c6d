-- Insert one visit with a fresh key, which nobody can have: the hot form of insert_new.
insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, expires_at, version, payload, created_at, changed_at)
values (%(shard)s::integer, %(key)s::text, %(queue)s::text, %(id)s::uuid, %(grp)s::text, %(priority)s::smallint,
  greatest(coalesce(%(due_at)s::timestamptz, mainspring.now() + %(delay)s::interval), mainspring.now()),
  %(expires_at)s::timestamptz, %(version)s::bigint, %(payload)s::text::jsonb, mainspring.now(), mainspring.now())
returning
  case when exists (select from mainspring.worker where asleep) then mainspring.wake(queue, due_at) end as hint
