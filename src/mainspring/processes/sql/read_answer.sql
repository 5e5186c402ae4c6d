-- How a question of a process stands: whether it was taken, and by its taker what the promise came to that answers it.
-- Rides the primary keys of signal and task, and those of edge.
select p.state::text, s.taken_by is not null as taken, r.outcome::text, r.result::text, r.error::text
from mainspring.process p
left join mainspring.signal s on s.process_id = p.id and s.name = %(name)s::text and s.id = %(id)s::text
left join lateral (
  select r.outcome, r.result, r.error
  from mainspring.edge h
  join mainspring.task a on a.process_id = h.process_id and a.id = h.task and a.actor = '@answer' and a.state <> 'superseded'
  join mainspring.edge e on e.process_id = a.process_id and e.task = a.id and e.kind = 'value'
  join mainspring.task r on r.process_id = e.process_id and r.id = e.promise
  where h.process_id = p.id and h.promise = s.taken_by
  limit 1
) r on true
where p.id = %(process_id)s::uuid
