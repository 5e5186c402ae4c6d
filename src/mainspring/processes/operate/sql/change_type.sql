-- Change settings of a process type and keep who did it. No row: there is no such type. Locks its row.
with before as (
  select name, settings
  from mainspring.process_type
  where name = %(name)s::text
  for update
),
changed as (
  update mainspring.process_type t
  set settings = b.settings || %(changes)s::text::jsonb, changed_at = mainspring.now()
  from before b
  where t.name = b.name
  returning t.name, b.settings as before, t.settings as after
),
kept as (
  insert into mainspring.setting_change (subject, source, before, after)
  select 'process ' || name, %(source)s::text, before, after
  from changed
)
select after::text from changed
