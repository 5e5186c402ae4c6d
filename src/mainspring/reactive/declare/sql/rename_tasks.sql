-- Move the state of tasks to their new names, unless they run or the new name has a state already; a firing that waits is called
-- off, the index of the old names goes. Answers the new names that must wait: their old task runs. Locks the old tasks' rows by name.
-- Rides the primary key and the indexes by task.
with old as materialized (
  select t.task as old, i.task, i.turn, t.run is not null as runs
  from unnest(%(olds)s::text[], %(tasks)s::text[], %(turns)s::bigint[]) as i(old, task, turn)
  join mainspring.reactive_task t on t.task = i.old
  where not exists (select from mainspring.reactive_task n where n.task = i.task)
  order by t.task
  for update of t
),
moved as (
  update mainspring.reactive_task t
  set task = o.task, turn = o.turn, firing = null, fired_at = null, captured = null, admitted_at = null, kind = null, record = null,
    base = null, repair = null, kept_back_at = null
  from old o
  where t.task = o.old and not o.runs
),
unused as (
  delete from mainspring.uses u where u.task in (select old from old where not runs)
),
unmade as (
  delete from mainspring.produces p where p.task in (select old from old where not runs)
)
select task from old where runs
