-- Tasks of a pool that are more important than some candidate and use what others bring: a row for each such task, its producer
-- and the param. Producers are those named (running, or about to), and those that have ended within the last moments, of which
-- the change or the check is still due. Rides produces_of_task, uses_pkey, reactive_task_by_name, reactive_ended_of_pool, visit_pkey.
with ended as (
  delete from mainspring.reactive_ended
  where pool = %(pool)s::text and at < mainspring.clock() - make_interval(secs => %(linger)s::double precision)
)
select o.task as producer, o.param, t.task, t.priority, null::timestamptz as ended_at
from unnest(%(producers)s::text[]) as r(task)
join mainspring.produces o on o.task = r.task
join mainspring.uses u on u.param = o.param
join mainspring.reactive_task t on t.task = u.task
where t.pool = %(pool)s::text and t.priority > %(above)s::integer
  and t.firing is null and t.paused_at is null and t.retired_at is null
union all
select e.task, p.param, t.task, t.priority, e.at
from mainspring.reactive_ended e
cross join mainspring.install s
cross join lateral unnest(e.params) as p(param)
join mainspring.uses u on u.param = p.param
join mainspring.reactive_task t on t.task = u.task
where e.pool = %(pool)s::text and e.at >= mainspring.clock() - make_interval(secs => %(linger)s::double precision)
  and t.pool = e.pool and t.priority > %(above)s::integer
  and t.firing is null and t.paused_at is null and t.retired_at is null
  and (exists (select from mainspring.visit v where v.shard = mainspring.shard(p.param, s.shard_count) and v.key = p.param
        and v.queue = 'mainspring.change' and v.due_at <= mainspring.clock())
    or exists (select from mainspring.visit v where v.shard = mainspring.shard(t.task, s.shard_count) and v.key = t.task
        and v.queue = 'mainspring.check' and v.due_at <= mainspring.clock()))
order by 1, 3
