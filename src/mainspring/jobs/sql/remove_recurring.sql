-- Remove a schedule, and keep who did. No row: there is none.
with gone as (
  delete from mainspring.recurring r where name = %(name)s::text
  returning name, to_jsonb(r) - '{created_at,changed_at,last_at,last_id,revision,declared,payload}'::text[] as before
),
kept as (
  insert into mainspring.setting_change (subject, source, before, after)
  select 'schedule ' || name, %(source)s::text, before, '{}' from gone
)
select name from gone
