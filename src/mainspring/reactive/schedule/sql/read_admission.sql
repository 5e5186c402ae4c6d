-- A pool's cap and all its firings: admitted ones, and those that wait, in the order in which they are to be admitted. The
-- pool's row is locked already. Rides reactive_ready.
select p.cap, p.reserve_max, mainspring.clock() as now, mainspring.now() as due_at, t.task, t.priority, t.firing, t.admitted_at is not null as admitted,
  t.kept_back_at
from (select pool, cap, reserve_max from mainspring.reactive_pool where pool = %(pool)s::text) p
left join lateral (
  (select * from mainspring.reactive_task a
    where a.pool = p.pool and a.firing is not null and a.admitted_at is not null)
  union all
  (select * from mainspring.reactive_task w
    where w.pool = p.pool and w.firing is not null and w.admitted_at is null
    order by w.priority desc, w.fired_at, w.task
    limit coalesce(p.cap, 1000))
) t on true
order by t.admitted_at is null, t.priority desc, t.fired_at, t.task
