-- Open the breaker of a queue, or of one of its groups, until a time, and tell the workers. No row: there is no such queue.
with opened as (
  insert into mainspring.breaker as b (queue, grp, failures, opened_at, until, at_once, reason)
  select q.name, %(group)s::text, 0, mainspring.now(), %(until)s::timestamptz, 1, %(reason)s::text
  from mainspring.queue q
  where q.name = %(name)s::text
  on conflict (queue, grp) do update
  set opened_at = coalesce(b.opened_at, excluded.opened_at), until = excluded.until, at_once = 1, reason = excluded.reason
  returning b.queue
)
select queue as name, pg_notify('mainspring', 'settings') from opened
