-- Pause or resume every queue but those to be kept as they are, and tell the workers. Returns all the others, with whether
-- each was paused before. Locks their rows, in the order of their names; a scan of a small table.
with found as (
  select name, paused_at from mainspring.queue where name <> all(%(keep)s::text[]) order by name for update
), changed as (
  update mainspring.queue q
  set paused_at = case when %(paused)s::boolean then mainspring.now() end, changed_at = mainspring.now()
  from found f
  where q.name = f.name and (f.paused_at is null) = %(paused)s::boolean
), told as (
  select pg_notify('mainspring', 'settings')
)
select f.name, f.paused_at is not null as paused_before from found f, told order by f.name
