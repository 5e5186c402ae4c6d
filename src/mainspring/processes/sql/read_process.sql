-- A process and the outcome of its root. Rides the primary keys.
select p.id::text, p.type, p.key, p.state::text, r.outcome::text, r.result::text, r.error::text, p.inconsistent,
  p.created_at, p.ended_at, p.generation, p.attrs::text
from mainspring.process p
left join mainspring.task r on r.process_id = p.id and r.id = p.root
where p.id = %(id)s::uuid
