-- What is seen of a process that runs. Reads each of its tasks once; rides its keys.
select p.state::text, p.attrs::text, t.done, t.live, t.parked,
  (
    select coalesce(json_agg(distinct x.name), '[]')::text
    from mainspring.external x
    where x.process_id = p.id and x.kind = 'signal'
  ) as waits_for
from mainspring.process p
cross join lateral (
  select count(*) filter (where t.state = 'done') as done,
    count(*) filter (where t.state in ('open', 'external', 'parked')) as live,
    count(*) filter (where t.state = 'parked') as parked
  from mainspring.task t
  where t.process_id = p.id
) t
where p.id = %(id)s::uuid
