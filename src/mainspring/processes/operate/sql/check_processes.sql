-- What is broken in some processes, one after the other, each along its own keys. One snapshot, no locks.
select i.id::text, v.rule, v.detail, v.task::text
from unnest(%(ids)s::uuid[]) as i(id)
cross join lateral (
  select rule, detail, task from mainspring.process_violation where process_id = i.id order by rule, detail, task offset 0
) v
