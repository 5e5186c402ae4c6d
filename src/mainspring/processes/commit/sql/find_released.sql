-- The open tasks that wait for promises which were closed now, with how many of these each has and whether one of them
-- is an error that stops it; `n` is the place of (the first of) them among the closed. A later statement than the lock
-- of the promises: it sees every edge that was there first. Rides the primary keys of edge and task.
select h.n, h.task::text, h.k, h.failed, t.waits, t.actor, t.options::text, t.generation,
  nullif(t.promise, t.id)::text as promise, case when t.edges = 1 then t.args::text end as args, t.args_version,
  t.scope_id::text, t.step, h.kind::text
from (
  select e.process_id, e.task, count(*)::integer as k, min(i.n)::integer as n, min(e.kind) as kind,
    coalesce(bool_or(i.outcome = 'err' and e.kind in ('value', 'order')), false) as failed
  from unnest(%(processes)s::text::uuid[], %(promises)s::text::uuid[], %(outcomes)s::text::text[])
    with ordinality as i(process_id, promise, outcome, n)
  join mainspring.edge e on e.process_id = i.process_id and e.promise = i.promise
  where e.kind <> 'handle'
  group by e.process_id, e.task
) h
join mainspring.task t on t.process_id = h.process_id and t.id = h.task
where t.state = 'open'
