-- Schedules of tasks and process types that were renamed go with them, as they stand: paused, changed, with their last tick. Those that
-- are named after their task (`old`, `old#2`) have its new name; where that is taken, one that code declared is removed (a worker of the
-- release before has declared it again), and one that was made at run time keeps its name. Locks the rows, in the order of their names.
-- Answers the new names of those that have another.
with found as (
  select r.name, n.old, n.new, r.declared is not null or r.target is null as is_declared,
    case when r.name = n.old or starts_with(r.name, n.old || '#') then n.new || substr(r.name, length(n.old) + 1) else r.name end as now
  from mainspring.recurring r
  join unnest(%(olds)s::text[], %(news)s::text[]) as n(old, new) on coalesce(r.target, r.queue) = n.old
  order by r.name
  for update of r
),
wanted as (
  select f.*, f.now <> f.name and (exists (select from mainspring.recurring o where o.name = f.now)
    or row_number() over (partition by f.now order by f.name) > 1) as taken
  from found f
),
doubled as (
  delete from mainspring.recurring r
  using wanted w
  where r.name = w.name and w.taken and w.is_declared and r.name <> all(%(kept)s::text[])
),
renamed as (
  update mainspring.recurring r
  set name = case when w.taken then w.name else w.now end,
    queue = case when r.queue = w.old then w.new else r.queue end, target = w.new, revision = r.revision + 1,
    payload = case when r.queue = w.old then r.payload else jsonb_set(r.payload, '{type}', to_jsonb(w.new)) end
  from wanted w
  where r.name = w.name and not (w.taken and w.is_declared and r.name <> all(%(kept)s::text[]))
  returning r.name, w.name as before
)
select name from renamed where name <> before
