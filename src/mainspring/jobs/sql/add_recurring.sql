-- Make a schedule at run time, and keep who did. No row: its name is taken.
with fresh as (
  insert into mainspring.recurring (name, queue, target, cron, zone, payload, priority, grp, catch_up, catch_up_max, tick_argument,
    changed_by, created_at, changed_at)
  values (%(name)s::text, %(queue)s::text, %(target)s::text, %(cron)s::text, %(zone)s::text, %(payload)s::text::jsonb,
    %(priority)s::smallint, %(group)s::text, %(catch_up)s::text, %(catch_up_max)s::integer, %(tick_argument)s::text,
    %(source)s::text, mainspring.now(), mainspring.now())
  on conflict (name) do nothing
  returning name, to_jsonb(recurring) - '{created_at,changed_at,last_at,last_id,revision,payload}'::text[] as after
),
kept as (
  insert into mainspring.setting_change (subject, source, before, after)
  select 'schedule ' || name, %(source)s::text, '{}', after from fresh
)
select name from fresh
