-- Say that somebody who is no worker sleeps until a due visit of these queues is told of (wake.sql), for so many seconds of
-- the server's own clock. Drops what others left behind. Locks its own rows. Answers the queues for which it was not known to
-- sleep: it looks at those once more before it waits. Rides the primary key.
with old as (
  delete from mainspring.sleeper
  where queue = any(%(queues)s::text[]) and until < now() - interval '1 hour' and id <> %(id)s::uuid
),
known as materialized (
  select queue from mainspring.sleeper
  where queue = any(%(queues)s::text[]) and id = %(id)s::uuid and until > now()
),
kept as (
  insert into mainspring.sleeper (queue, id, until)
  select q, %(id)s::uuid, now() + make_interval(secs => %(seconds)s::double precision) from unnest(%(queues)s::text[]) as q order by q
  on conflict (queue, id) do update set until = excluded.until
  returning queue
)
select queue from kept where queue not in (select queue from known)
