-- Send a consumer nothing more until it is resumed, and tell the workers. Locks its queue's row. No row: it was paused already, without an end.
with changed as (
  update mainspring.queue
  set paused_at = mainspring.now(), paused_until = null, pause_reason = null, changed_at = mainspring.now()
  where name = %(queue)s::text and (paused_at is null or paused_until is not null)
  returning name
)
select name, pg_notify('mainspring', 'settings') from changed
