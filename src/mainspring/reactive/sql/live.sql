-- A process says that it lives and which release it carries; those that are silent for long are forgotten.
with forgotten as (
  delete from mainspring.reactive_instance
  where seen_at < mainspring.clock() - interval '1 day'
)
insert into mainspring.reactive_instance (id, release, pool, seen_at)
values (%(id)s::uuid, %(release)s::bigint, %(pool)s::text, mainspring.clock())
on conflict (id) do update
set release = excluded.release, pool = excluded.pool, seen_at = excluded.seen_at
