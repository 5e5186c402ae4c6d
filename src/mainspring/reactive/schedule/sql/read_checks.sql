-- All that the checks of some tasks have to know, in one statement and so in one snapshot: params that were set together are
-- seen together. The tasks are named, or they are those that use some params, of which so many at most.
-- The address of a task's row is what its write finds it by. Rides uses_pkey and, a page each, reactive_task_by_name,
-- uses_of_task and param_by_name; param_rewind_pkey after a rewind.
with chosen as materialized (
  select u.task from mainspring.uses u where u.param = any(%(params)s::text[])
  union
  select n.task from unnest(%(tasks)s::text[]) as n(task)
  limit %(most)s::integer
)
select t.task, t.ctid::text as address, t.fingerprint, t.turn, t.firing is not null as in_flight, t.paused_at is not null as paused,
  t.retired_at is not null as retired, t.request::text as request, t.seen::text as seen, t.retry_at,
  t.succeeded_at, t.ended_at, t.last_fired_at, t.verdict, t.leaves::text as leaves, t.since, c.now, f.params::text as params,
  case when f.rewound then (
    select json_agg(json_build_array(r.param, r.number, coalesce(to_json(r.num), to_json(r.ver)), r.chunks) order by r.param, r.number)
    from mainspring.uses u
    join mainspring.param_rewind r on r.param = u.param and r.number > coalesce((t.seen -> u.param ->> 1)::integer, 2147483647)
    where u.task = t.task) end::text as rewinds
from (select mainspring.clock() as now) c
cross join chosen n
join mainspring.reactive_task t on t.task = n.task
cross join lateral (
  select bool_or(p.rewinds > 0) as rewound,
    json_object_agg(u.param, json_build_array(coalesce(to_json(p.num), to_json(p.ver)), p.rewinds,
      case when t.debounce > interval '0' then mainspring.micros(p.changed_at) end, p.kind)) as params
  from mainspring.uses u join mainspring.param p on p.name = u.param
  where u.task = t.task
) f
