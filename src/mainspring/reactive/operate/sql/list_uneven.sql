-- Reactive tasks that some living process of their pool has no code of, while another has: a firing waits where the owner of its
-- shard lacks it. Locks nothing. Reads the living processes and their releases, and looks each task up by name.
with living as materialized (
  select distinct n.pool, n.release, r.tasks
  from mainspring.reactive_instance n
  join mainspring.reactive_release r on r.number = n.release
  where n.seen_at > mainspring.clock() - make_interval(secs => %(living)s::double precision)
),
carried as (
  select l.pool, i.task, count(*) as releases
  from living l
  cross join unnest(l.tasks) as i(task)
  group by l.pool, i.task
)
select c.pool, array_agg(c.task order by c.task) as tasks
from carried c
join mainspring.reactive_task t on t.task = c.task and t.pool = c.pool and t.retired_at is null
where c.releases < (select count(*) from living l where l.pool = c.pool)
group by c.pool
order by c.pool
