-- Forget what was ordered long ago, a thousand at a time. Rides audit_at; skips what others have locked.
delete from mainspring.audit
where id in (
  select id from mainspring.audit
  where at < mainspring.now() - make_interval(days => %(keep)s::integer)
  order by at
  limit 1000
  for update skip locked
)
