-- Pause or resume a recurring visit. Resumed, it begins anew: ticks of the pause are not made up for. No row: there is none.
update mainspring.recurring
set changed_at = case when %(paused)s::boolean or paused_at is null then changed_at else mainspring.now() end,
  paused_at = case when %(paused)s::boolean then coalesce(paused_at, mainspring.now()) end
where name = %(name)s::text
returning name, cron, zone, coalesce((select q.pool from mainspring.queue q where q.name = recurring.queue), 'default') as pool
