-- Start runs: mark each firing as run by this run, which is what makes a later start of it a crash. Answers one row a run: its
-- state as it stood ('started', 'other': another firing by now, 'again': an earlier start of this firing has died), what the
-- check captured, and whether a param of it was moved back since. 'newer': the task is of a newer release, whose check looked
-- at other params than this worker's code names; it is not started here: its success would count as seen what the code does not
-- look at. 'unknown': this worker has no code of it; it can only find out that an earlier start has died. `exact`: the check
-- looked at what this worker's code names, no more and no less.
-- Locks reactive_task rows in the order of the items, which is by name. Rides reactive_task_by_name (once a run that starts),
-- param_by_name and produces_of_task.
with item as materialized (
  select i.task, i.firing, i.run, i.needs is not null as known,
    array(select jsonb_array_elements_text(coalesce(i.needs, '[]')::jsonb)) as needs
  from unnest(%(tasks)s::text[], %(firings)s::bigint[], %(runs)s::bigint[], %(needs)s::text[]) as i(task, firing, run, needs)
),
started as (
  update mainspring.reactive_task t
  set run = i.run, started_at = mainspring.clock()
  from item i
  where i.known and t.task = i.task and t.firing = i.firing and (t.run is null or t.run = i.run) and t.admitted_at is not null
    and ((t.captured ?& i.needs and t.captured - i.needs = '{}') or t.release <= %(release)s::bigint)
  returning t.task, t.kind, t.record, t.cause, t.captured, t.seen, t.base, t.failures, t.run,
    t.captured ?& i.needs and t.captured - i.needs = '{}' as exact
),
answered as (
  select task, 'started' as answer, kind, record, cause, captured, seen, base, failures, run, exact
  from started
  union all
  select i.task, case
    when t.firing is distinct from i.firing then 'other'
    when t.run is not null then 'again'
    when not i.known then 'unknown'
    when t.admitted_at is not null then 'newer'
    else 'other'
  end, t.kind, t.record, t.cause, t.captured, t.seen, t.base, t.failures, t.run, false
  from item i
  left join mainspring.reactive_task t on t.task = i.task
  where i.task not in (select task from started)
)
select t.task, t.answer, t.kind, t.record, t.cause, t.captured::text as captured, t.seen::text as seen, t.base, t.failures, t.run, t.exact,
  exists (
    select from jsonb_each(t.captured) c join mainspring.param p on p.name = c.key
    where p.rewinds > (c.value ->> 1)::integer
  ) as rewound,
  (select jsonb_agg(jsonb_build_array(r.param, r.number, coalesce(to_jsonb(r.num), to_jsonb(r.ver)), r.chunks) order by r.param, r.number)
    from jsonb_object_keys(t.captured) k(param)
    join mainspring.param_rewind r on r.param = k.param and r.number > coalesce((t.seen -> k.param ->> 1)::integer, 2147483647)
      and r.number <= coalesce((t.captured -> k.param ->> 1)::integer, 2147483647))::text as rewinds,
  (select jsonb_object_agg(o.param, coalesce(to_jsonb(p.num), to_jsonb(p.ver)))
    from mainspring.produces o join mainspring.param p on p.name = o.param
    where o.task = t.task)::text as products
from answered t
