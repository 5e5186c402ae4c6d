-- Insert one visit with a fresh key, which nobody can have: the hot form of insert_new.
-- Sleepers are told on the way to a value, which is the time whatever wake answers: a row that is answered (returning)
-- costs the server 4.5 us of 75, and the caller the reading of it.
insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, expires_at, version, payload, created_at, changed_at)
values (%(shard)s::integer, %(key)s::text, %(queue)s::text, %(id)s::uuid, %(grp)s::text, %(priority)s::smallint,
  greatest(coalesce(%(due_at)s::timestamptz, mainspring.now() + %(delay)s::interval), mainspring.now()),
  %(expires_at)s::timestamptz, %(version)s::bigint, %(payload)s::jsonb, mainspring.now(),
  case
    when not exists (select from mainspring.worker where asleep) then mainspring.now()
    when mainspring.wake(%(queue)s::text,
      greatest(coalesce(%(due_at)s::timestamptz, mainspring.now() + %(delay)s::interval), mainspring.now())) is null
      then mainspring.now()
    else mainspring.now()
  end)
