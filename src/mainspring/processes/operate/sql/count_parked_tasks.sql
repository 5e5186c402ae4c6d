-- How many parked tasks fit. Rides parked_task_group.
select count(*)
from mainspring.parked_task k
where (%(type)s::text is null or k.type = %(type)s::text)
  and (%(actor)s::text is null or k.actor = %(actor)s::text)
  and (%(fingerprint)s::text is null or k.fingerprint = %(fingerprint)s::text)
  and (%(error)s::text is null or position(lower(%(error)s::text) in lower(k.error)) > 0 or k.error_type = %(error)s::text)
  and k.parked_at <= %(until)s::timestamptz
