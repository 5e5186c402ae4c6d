-- Write an actor's policy and limits, keep who changed what, and tell the workers.
with changed as (
  update mainspring.queue q
  set policy = %(policy)s::text::jsonb, concurrency = %(concurrency)s::integer, rate = %(rate)s::double precision,
    group_concurrency = %(group_concurrency)s::integer, group_rate = %(group_rate)s::double precision,
    changed_at = mainspring.now()
  where q.name = %(name)s::text
  returning q.name
),
kept as (
  insert into mainspring.setting_change (subject, source, before, after)
  select 'actor ' || name, %(source)s::text, %(before)s::text::jsonb, %(after)s::text::jsonb
  from changed
)
select name, pg_notify('mainspring', 'settings') from changed
