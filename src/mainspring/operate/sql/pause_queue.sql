-- Pause or resume a queue and tell the workers. No row: there is no such queue.
with changed as (
  update mainspring.queue
  set paused_at = case when %(paused)s::boolean then coalesce(paused_at, mainspring.now()) end, changed_at = mainspring.now()
  where name = %(name)s::text
  returning name
)
select name, pg_notify('mainspring', 'settings') from changed
