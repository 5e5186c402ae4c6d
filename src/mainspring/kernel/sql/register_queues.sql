-- Register queues as the code declares them. An operator's later change stands until the declaration itself changes.
-- With update = false (a client, not a worker) known queues are left as they are. Answers what changed. No operator
-- changes a priority or a policy for keys, so a new one is written without touching the rest.
with wanted as materialized (
  select name, declared::jsonb
  from unnest(%(names)s::text[], %(declared)s::text[]) as i(name, declared)
  order by name
),
prior as (
  update mainspring.queue q
  set declared = d.declared, changed_at = now()
  from wanted d
  where q.name = d.name and q.declared <> d.declared and q.declared - 'priority' - 'unique' = d.declared - 'priority' - 'unique'
    and %(update)s::boolean
)
insert into mainspring.queue as q (name, pool, kind, turns, hold_after, work_timeout, crash_limit, concurrency, rate,
  group_concurrency, group_rate, breaker_failures, breaker_pause, breaker_within, burst, group_burst, searchable, policy, declared)
select d.name, d.declared ->> 'pool', d.declared ->> 'kind', d.declared ->> 'turns',
  make_interval(secs => (d.declared ->> 'hold_after')::double precision),
  make_interval(secs => (d.declared ->> 'work_timeout')::double precision),
  (d.declared ->> 'crash_limit')::integer, (d.declared ->> 'concurrency')::integer,
  (d.declared ->> 'rate')::double precision, (d.declared ->> 'group_concurrency')::integer,
  (d.declared ->> 'group_rate')::double precision, (d.declared ->> 'breaker_failures')::integer,
  (d.declared ->> 'breaker_pause')::double precision, (d.declared ->> 'breaker_within')::double precision,
  (d.declared ->> 'burst')::integer, (d.declared ->> 'group_burst')::integer,
  array(select jsonb_array_elements_text(d.declared -> 'searchable')), coalesce(d.declared -> 'policy', '{}'), d.declared
from wanted d
where not exists (select from mainspring.queue q where q.name = d.name and q.declared - 'priority' - 'unique' = d.declared - 'priority' - 'unique')
order by d.name
on conflict (name) do update
set pool = excluded.pool, kind = excluded.kind, turns = excluded.turns, hold_after = excluded.hold_after,
  work_timeout = excluded.work_timeout, crash_limit = excluded.crash_limit, concurrency = excluded.concurrency,
  rate = excluded.rate, group_concurrency = excluded.group_concurrency, group_rate = excluded.group_rate,
  breaker_failures = excluded.breaker_failures, breaker_pause = excluded.breaker_pause, breaker_within = excluded.breaker_within,
  burst = excluded.burst, group_burst = excluded.group_burst,
  searchable = excluded.searchable, policy = excluded.policy, declared = excluded.declared, changed_at = now()
where q.declared - 'priority' - 'unique' <> excluded.declared - 'priority' - 'unique' and %(update)s::boolean
returning name
