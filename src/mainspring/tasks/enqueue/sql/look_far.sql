-- What became of a call, and how far its runs said that they are.
select r.state, p.attempt, p.done, p.note, p.changed_at
from mainspring.result_of(%(queue)s::text, %(id)s::uuid, %(key)s::text) r
left join mainspring.progress p on p.id = %(id)s::uuid
