-- Store a process and its first task, unless its key is taken. Answers the id, when it begins (null: at once), and when it
-- is looked at, counted from there; no row: the key is taken (a later statement reads by whom).
-- Locks nothing that exists. Rides process_one_per_key.
with fresh as (
  insert into mainspring.process (id, type, key, root, start, attrs, parent_process, parent_task, parent_generation, engine)
  values (%(id)s::uuid, %(type)s::text, %(key)s::text, %(root)s::uuid, %(start)s::text::jsonb, %(attrs)s::text::jsonb,
    %(parent_process)s::uuid, %(parent_task)s::uuid, %(parent_generation)s::integer,
    coalesce(%(engine)s::text, (
      select 'mainspring.process@' || nullif(s.declared ->> 'pool', 'default')
      from mainspring.process_type s where s.name = %(type)s::text), 'mainspring.process'))
  on conflict (type, key) do nothing
  returning id, root, type, start, engine
),
first as (
  insert into mainspring.task (process_id, id, promise, actor, args, args_version, options)
  select f.id, f.root, f.root, f.type, f.start, %(args_version)s::integer,
    (select jsonb_build_object('task_timeout', q.policy -> 'task_timeout')
      from mainspring.queue q where q.name = f.type and q.policy ->> 'task_timeout' is not null)
  from fresh f
)
select f.id::text, b.due_at,
  b.at + make_interval(secs => coalesce((t.settings ->> 'idle_timeout')::double precision, 3600)) as look_at, f.engine,
  b.at + make_interval(secs => (q.policy ->> 'task_timeout')::double precision) as deadline_at
from fresh f
cross join lateral (
  select coalesce(%(at)s::timestamptz, mainspring.now() + make_interval(secs => %(delay)s::double precision)) as due_at
) a
cross join lateral (select a.due_at, greatest(a.due_at, mainspring.now()) as at) b
left join mainspring.process_type t on t.name = f.type
left join mainspring.queue q on q.name = f.type
