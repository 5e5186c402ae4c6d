-- Finish processes whose root is closed and that have no live task; a daemon is none. One whose cancel had something to
-- undo is cancelled now. Answers those that are finished now, with the queue of a parent that is open and must be told.
-- Others that end at the same moment may each see the other: then the look that follows finishes the process.
-- Locks process rows in the order of the ids. Rides the primary keys.
with mine as materialized (
  select p.id
  from unnest(%(ids)s::text::uuid[]) as i(id)
  cross join lateral (
    select p.id
    from mainspring.process p
    where p.id = i.id
      and p.state = 'open'
      and exists (select from mainspring.task r where r.process_id = p.id and r.id = p.root and r.outcome is not null)
      and not exists (
        select from mainspring.task t
        where t.process_id = p.id and t.state in ('open', 'external', 'parked'))
    for no key update
  ) p
)
update mainspring.process p
set state = case when p.cancelling_at is null then 'finished' else 'cancelled' end::mainspring.process_state, root_closed = true, ended_at = mainspring.now()
from mine m
where p.id = m.id
returning p.id::text, p.parent_process::text, p.parent_task::text,
  (select o.engine from mainspring.process o where o.id = p.parent_process and o.state = 'open') as parent_engine
