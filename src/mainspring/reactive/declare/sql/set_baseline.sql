-- first_run="baseline": what the task has not seen yet counts as seen as it is now, so that only later data is new. In flight it
-- is noted as a repair too, or the success of the running firing would undo it. Rides the primary keys.
update mainspring.reactive_task t
set seen = f.fresh || t.seen, seen_run = i.token,
  repair = case when t.firing is not null then f.fresh || coalesce(t.repair, '{}') end
from unnest(%(tasks)s::text[], %(tokens)s::bigint[]) as i(task, token)
cross join lateral (
  select jsonb_object_agg(u.param, jsonb_build_array(coalesce(to_jsonb(p.num), to_jsonb(p.ver)), p.rewinds)) as fresh
  from mainspring.uses u
  join mainspring.param p on p.name = u.param
  join mainspring.reactive_task s on s.task = u.task
  where u.task = i.task and coalesce(p.num::text, p.ver) is not null and not s.seen ? u.param
) f
where t.task = i.task and f.fresh is not null
