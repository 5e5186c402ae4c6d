-- Operations, newest first, before an id; of one state, or one alone. One whose step is parked says so, with the step's error:
-- nothing goes on until somebody resumes it. Rides the primary keys.
select o.id, o.kind, o.source, o.filter as "order", s.state, o.total, o.done, o.failed, o.position,
  case when s.state = 'parked' then step.error else o.error end as error, o.created_at, o.changed_at, o.ended_at
from (
  select id, kind, source, filter::text as filter, state::text as state, total, done, failed, position::text as position,
    error, created_at, changed_at, ended_at
  from mainspring.operation
  where (%(id)s::bigint is null or id = %(id)s::bigint)
    and (%(before)s::bigint is null or id < %(before)s::bigint)
    and (%(state)s::text is null or state::text = case %(state)s::text when 'parked' then 'running' else %(state)s::text end)
) o
cross join lateral (
  select bool_and(v.parked_at is not null) as parked, max(v.error) as error
  from mainspring.visit v
  where o.state = 'running'
    and v.key = o.id::text
    and v.queue >= 'mainspring.operation' and v.queue < 'mainspring.operationA'  -- and those of all pools, @...
) step
cross join lateral (select case when step.parked then 'parked' else o.state end as state) s
where %(state)s::text is null or s.state = %(state)s::text
order by o.id desc
limit %(most)s::integer
