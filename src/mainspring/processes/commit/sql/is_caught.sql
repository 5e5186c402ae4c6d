-- Which of these promises would have an error of theirs caught: downstream, over the tasks that such an error would
-- only pass through, some open task takes the outcome as it comes, or is a race that wants successes. One that is answered and not caught is held there by
-- an open task as a handle, which may yet link such a task to it. Locks nothing. Rides the primary keys.
with recursive down as (
  select i.process_id, i.promise as source, i.promise
  from unnest(%(processes)s::uuid[], %(promises)s::uuid[]) as i(process_id, promise)
  union
  select d.process_id, d.source, t.promise
  from down d
  join mainspring.edge e on e.process_id = d.process_id and e.promise = d.promise
  join mainspring.task t on t.process_id = e.process_id and t.id = e.task
  where t.state = 'open'
    and (e.kind in ('value', 'order') or (e.kind = 'outcome' and (t.actor in ('@pass_on', '@first_of', '@every', '@each') or (t.actor = '@some_of' and t.args ? 'ends'))))
)
select d.source::text, bool_or(e.kind = 'outcome') as caught
from down d
join mainspring.edge e on e.process_id = d.process_id and e.promise = d.promise and e.kind in ('outcome', 'handle')
join mainspring.task t on t.process_id = e.process_id and t.id = e.task
where t.state = 'open' and (e.kind = 'handle' or not (t.actor in ('@pass_on', '@first_of', '@every', '@each') or (t.actor = '@some_of' and t.args ? 'ends')))
group by d.source
