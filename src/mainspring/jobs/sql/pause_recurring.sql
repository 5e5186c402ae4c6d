-- Pause or resume a schedule, and keep who did. Resumed, it begins anew: ticks of the pause are not made up for, unless `make_up`
-- says so. A tick that a clock more than an hour ahead has made is forgotten (else none would come until that time); one of less
-- than that is not, lest it be made twice. No row: there is none.
with found as (
  select name, paused_at, paused_until, pause_reason from mainspring.recurring where name = %(name)s::text for update
),
changed as (
  update mainspring.recurring r
  set changed_at = case when %(paused)s::boolean or r.paused_at is null or %(make_up)s::text is not null
      then least(r.changed_at, mainspring.now()) else mainspring.now() end,
    last_at = case when %(paused)s::boolean or r.last_at <= mainspring.now() + interval '1 hour' then r.last_at end,
    created_at = least(r.created_at, mainspring.now()),
    paused_at = case when %(paused)s::boolean then coalesce(r.paused_at, mainspring.now()) end,
    paused_until = case when %(paused)s::boolean then %(until)s::timestamptz end,
    pause_reason = case when %(paused)s::boolean then %(reason)s::text end,
    make_up = case when not %(paused)s::boolean then %(make_up)s::text end,
    revision = r.revision + 1
  from found f
  where r.name = f.name
  returning r.name, r.cron, r.zone, r.queue, to_jsonb(f) as before,
    jsonb_build_object('name', r.name, 'paused_at', r.paused_at, 'paused_until', r.paused_until, 'pause_reason', r.pause_reason) as after
),
kept as (
  insert into mainspring.setting_change (subject, source, before, after)
  select 'schedule ' || name, %(source)s::text, before, after from changed
)
select c.name, c.cron, c.zone, coalesce((select q.pool from mainspring.queue q where q.name = c.queue), 'default') as pool from changed c
