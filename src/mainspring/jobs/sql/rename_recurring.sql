-- Schedules of tasks and process types that were renamed go with them, as they stand: paused, changed, with their last tick. Those that
-- are named after their task (`old`, `old#2`) have its new name, unless that is taken. Locks the rows, in the order of their names.
with wanted as (
  select r.name, n.old, n.new,
    case when r.name = n.old or starts_with(r.name, n.old || '#') then n.new || substr(r.name, length(n.old) + 1) else r.name end as now
  from mainspring.recurring r
  join unnest(%(olds)s::text[], %(news)s::text[]) as n(old, new) on coalesce(r.target, r.queue) = n.old
  order by r.name
  for update of r
)
update mainspring.recurring r
set name = case when w.now <> w.name and exists (select from mainspring.recurring o where o.name = w.now) then w.name else w.now end,
  queue = case when r.queue = w.old then w.new else r.queue end, target = w.new, revision = r.revision + 1,
  payload = case when r.queue = w.old then r.payload else jsonb_set(r.payload, '{type}', to_jsonb(w.new)) end
from wanted w
where r.name = w.name
