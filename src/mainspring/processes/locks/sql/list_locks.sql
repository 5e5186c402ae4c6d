-- Who holds locks and who waits for them, in line; with the scopes around who waits, from within. At most so many. Rides
-- process_lock_in_line.
select v.name, v.type, v.key, v.process_id::text, v.task::text, v.scope_id::text, v.asked_at, v.held_at, v.is_ending,
  (
    with recursive outer_scope as (
      select s.id, s.parent from mainspring.scope s where s.id = v.parent
      union all
      select s.id, s.parent from mainspring.scope s join outer_scope o on s.id = o.parent
    )
    select coalesce(array_agg(id::text), '{}') from outer_scope
  ) as within
from mainspring.process_lock_live v
where (%(name)s::text is null or v.name = %(name)s::text)
order by v.name, v.held_at is null, v.no
limit %(limit)s::integer
