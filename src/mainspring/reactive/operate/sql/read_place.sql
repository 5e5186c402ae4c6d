-- Where a waiting firing stands: its pool's cap, how many run, how many go before it, and which running tasks keep slots for
-- more important ones. Locks nothing. Rides reactive_task_pkey and reactive_ready. No row: it does not wait.
select t.pool, p.cap, p.reserve_max,
  (select count(*) from mainspring.reactive_task a
    where a.pool = t.pool and a.firing is not null and a.admitted_at is not null) as running,
  (select count(*) from mainspring.reactive_task b
    where b.pool = t.pool and b.firing is not null and b.admitted_at is null
      and (b.priority > t.priority or (b.priority = t.priority and (b.fired_at, b.task) < (t.fired_at, t.task)))) as ahead,
  array(select k.task from mainspring.reactive_task k
    where k.pool = t.pool and k.firing is not null and k.kept_back_at is not null order by k.task) as keepers,
  (select max(k.kept_back_at) from mainspring.reactive_task k
    where k.pool = t.pool and k.firing is not null) + p.reserve_max as kept_until
from mainspring.reactive_task t
left join mainspring.reactive_pool p on p.pool = t.pool
where t.task = %(task)s::text and t.firing is not null and t.admitted_at is null
