-- Pause or resume every queue but those to be kept as they are, and tell the workers. Returns all the others, with whether
-- each was paused before. A pause that is in force keeps its reason and its end. Locks their rows, in the order of their names;
-- a scan of a small table.
with found as (
  select name, paused_at is not null and (paused_until is null or paused_until > mainspring.now()) as paused
  from mainspring.queue where name <> all(%(keep)s::text[]) order by name for update
), changed as (
  update mainspring.queue q
  set paused_at = case when %(paused)s::boolean then mainspring.now() end, paused_until = %(until)s::timestamptz,
    pause_reason = %(reason)s::text, changed_at = mainspring.now()
  from found f
  where q.name = f.name and f.paused <> %(paused)s::boolean
), told as (
  select pg_notify('mainspring', 'settings')
)
select f.name, f.paused as paused_before from found f, told order by f.name
