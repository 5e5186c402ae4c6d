-- The live tasks of some processes, and those that have a compensation: what a cancel has to do with. The processes are
-- locked. Rides the primary key, one process at a time.
select i.id::text as process_id, t.*
from unnest(%(ids)s::uuid[]) as i(id)
cross join lateral (
  select t.id::text, t.promise::text, t.actor, t.state in ('open', 'external', 'parked') as is_live, t.undo is not null as can_be_undone
  from mainspring.task t
  where t.process_id = i.id and (t.state in ('open', 'external', 'parked') or t.undo is not null)
  offset 0
) t
