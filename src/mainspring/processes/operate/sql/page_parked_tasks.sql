-- Parked tasks that fit, in the order of their ids, from a position on.
-- Rides parked_task_group or the primary key.
select k.process_id::text, k.task::text, k.actor
from mainspring.parked_task k
where (%(type)s::text is null or k.type = %(type)s::text)
  and (%(actor)s::text is null or k.actor = %(actor)s::text)
  and (%(fingerprint)s::text is null or k.fingerprint = %(fingerprint)s::text)
  and (%(error)s::text is null or position(lower(%(error)s::text) in lower(k.error)) > 0 or k.error_type = %(error)s::text)
  and k.parked_at <= %(until)s::timestamptz
  and (%(after)s::uuid is null or k.task > %(after)s::uuid)
order by k.task
limit %(limit)s::integer
