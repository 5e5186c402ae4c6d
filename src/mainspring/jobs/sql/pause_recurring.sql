-- Pause or resume a recurring visit. Resumed, it begins anew: ticks of the pause are not made up for, and one that a
-- clock far ahead has made is forgotten (else none would come until that time). No row: there is none.
update mainspring.recurring
set changed_at = case when %(paused)s::boolean or paused_at is null then changed_at else mainspring.now() end,
  last_at = case when %(paused)s::boolean or last_at <= mainspring.now() then last_at end,
  created_at = least(created_at, mainspring.now()),
  paused_at = case when %(paused)s::boolean then coalesce(paused_at, mainspring.now()) end
where name = %(name)s::text
returning name, cron, zone, coalesce((select q.pool from mainspring.queue q where q.name = recurring.queue), 'default') as pool
