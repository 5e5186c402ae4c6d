-- All that the checks of some tasks have to know, in one statement and so in one snapshot: params that were set together are
-- seen together. Rides reactive_task_pkey, uses_of_task, param_pkey and param_rewind_pkey.
select t.task, t.pool, t.fingerprint, t.turn, t.firing is not null as in_flight, t.paused_at is not null as paused,
  t.retired_at is not null as retired, t.request::text as request, t.seen::text as seen, t.seen_run, t.failures, t.retry_at,
  t.succeeded_at, t.ended_at, t.last_fired_at, t.checked_at, t.verdict, t.leaves::text as leaves, t.since, c.now, t.priority,
  (select jsonb_object_agg(u.param, jsonb_build_array(coalesce(to_jsonb(p.num), to_jsonb(p.ver)), p.rewinds,
      mainspring.micros(p.changed_at), p.kind))
    from mainspring.uses u join mainspring.param p on p.name = u.param
    where u.task = t.task)::text as params,
  (select jsonb_agg(jsonb_build_array(r.param, r.number, coalesce(to_jsonb(r.num), to_jsonb(r.ver)), r.chunks) order by r.param, r.number)
    from mainspring.uses u
    join mainspring.param_rewind r on r.param = u.param and r.number > coalesce((t.seen -> u.param ->> 1)::integer, 2147483647)
    where u.task = t.task)::text as rewinds
from (select mainspring.clock() as now) c
cross join mainspring.reactive_task t
where t.task = any(%(tasks)s::text[])
