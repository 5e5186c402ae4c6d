-- Processes of a type, by the engine's id or by their starter's key, with the outcome of the root and, while that is open, the first
-- of the parked tasks. Rides the primary keys, process_one_per_key and parked_task_of_process.
select i.type, coalesce(i.id::text, '') as asked_id, coalesce(i.key, '') as asked_key, p.id::text as id, p.state::text as state,
  r.outcome::text as outcome, r.result::text as result, r.error::text as failure, k.actor, k.error_type, k.error
from unnest(%(types)s::text[], %(ids)s::uuid[], %(keys)s::text[]) as i(type, id, key)
cross join lateral (
  select p.id, p.state, p.root from mainspring.process p where i.id is not null and p.id = i.id and p.type = i.type
  union all
  select p.id, p.state, p.root from mainspring.process p where i.id is null and p.type = i.type and p.key = i.key
) p
left join mainspring.task r on r.process_id = p.id and r.id = p.root
left join lateral (
  select k.actor, k.error_type, k.error
  from mainspring.parked_task k
  where k.process_id = p.id and r.outcome is null
  order by k.parked_at, k.task
  limit 1
) k on true
