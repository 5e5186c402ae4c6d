-- Change a schedule that is locked, and keep who did; of its arguments only that they changed. What the code declares takes its place
-- when that changes. A new line or zone holds from now on.
with before as (
  select name, to_jsonb(r) - '{created_at,changed_at,last_at,last_id,revision,declared}'::text[] as was
  from mainspring.recurring r where name = %(name)s::text
),
changed as (
  update mainspring.recurring r
  set cron = %(cron)s::text, zone = %(zone)s::text, payload = coalesce(%(payload)s::text::jsonb, payload),
    priority = %(priority)s::smallint, grp = %(group)s::text, catch_up = %(catch_up)s::text,
    catch_up_max = %(catch_up_max)s::integer, tick_argument = %(tick_argument)s::text, changed_by = %(source)s::text,
    revision = revision + 1,
    changed_at = case when (r.cron, r.zone) = (%(cron)s::text, %(zone)s::text) then r.changed_at else mainspring.now() end
  where r.name = %(name)s::text
  returning r.name, to_jsonb(r) - '{created_at,changed_at,last_at,last_id,revision,declared}'::text[] as now
)
insert into mainspring.setting_change (subject, source, before, after)
select 'schedule ' || c.name, %(source)s::text,
  b.was - 'payload' || jsonb_build_object('arguments', 'as before'),
  c.now - 'payload' || jsonb_build_object('arguments', case when b.was -> 'payload' = c.now -> 'payload' then 'as before' else 'changed' end)
from changed c join before b using (name)
