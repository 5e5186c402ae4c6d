-- The open tasks that wait for promises which were closed now, with how many of these each has and whether one of them
-- is an error that stops it. A later statement than the lock of the promises: it sees every edge that was there
-- first. Rides the primary keys of edge and task.
select h.process_id::text, h.task::text, h.k, h.failed, t.waits, t.actor, t.options::text, t.generation,
  t.promise::text, case when t.edges = 1 then t.args::text end as args, t.args_version, t.scope_id::text, t.step, h.kind::text,
  h.promise::text
from (
  select e.process_id, e.task, count(*)::integer as k,
    min(e.kind) as kind, min(e.promise::text) as promise, coalesce(bool_or(i.outcome = 'err' and e.kind in ('value', 'order')), false) as failed
  from unnest(%(processes)s::text::uuid[], %(promises)s::text::uuid[], %(outcomes)s::text::text[]) as i(process_id, promise, outcome)
  join mainspring.edge e on e.process_id = i.process_id and e.promise = i.promise
  where e.kind <> 'handle'
  group by e.process_id, e.task
) h
join mainspring.task t on t.process_id = h.process_id and t.id = h.task
where t.state = 'open'
