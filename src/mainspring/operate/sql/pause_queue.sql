-- Pause a queue, perhaps until a time, or resume it, and tell the workers. A pause that is in force stays as old as it is. No row:
-- there is no such queue.
with changed as (
  update mainspring.queue
  set paused_at = case when %(paused)s::boolean then
      coalesce(case when paused_until is null or paused_until > mainspring.now() then paused_at end, mainspring.now()) end,
    paused_until = %(until)s::timestamptz, pause_reason = %(reason)s::text, changed_at = mainspring.now()
  where name = %(name)s::text
  returning name
)
select name, pg_notify('mainspring', 'settings') from changed
