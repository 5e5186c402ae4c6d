-- What tasks are handed out with: their row, and along their edges, by position, what came of each promise.
-- Locks nothing. Rides the primary keys.
select t.id::text, t.process_id::text, t.promise::text, t.actor, t.state::text, t.generation, t.args::text,
  t.args_version, t.scope_id::text, t.step, t.options::text,
  (
    select json_agg(json_build_array(e.promise, e.kind, p.outcome, p.result, p.error) order by e.pos)::text
    from mainspring.edge e
    join mainspring.task p on p.process_id = e.process_id and p.id = e.promise
    where e.process_id = t.process_id and e.task = t.id
  ) as inputs
from unnest(%(processes)s::text::uuid[], %(ids)s::text::uuid[]) as i(process_id, id)
join mainspring.task t on t.process_id = i.process_id and t.id = i.id
