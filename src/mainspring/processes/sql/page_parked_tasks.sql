-- Parked tasks that fit, in the order of their ids, from a position on; with the places of their visits.
-- Rides parked_task_group or the primary key, and the visit's key.
select k.task::text, k.process_id::text, v.shard, v.key, v.queue
from mainspring.parked_task k
join mainspring.visit v on v.key = k.task::text and v.parked_at is not null
  and v.queue = case when left(k.actor, 1) = '@' then 'mainspring.process' else k.actor end
where (%(type)s::text is null or k.type = %(type)s::text)
  and (%(actor)s::text is null or k.actor = %(actor)s::text)
  and (%(fingerprint)s::text is null or k.fingerprint = %(fingerprint)s::text)
  and (%(error)s::text is null or position(lower(%(error)s::text) in lower(k.error)) > 0 or k.error_type = %(error)s::text)
  and k.parked_at <= %(until)s::timestamptz
  and (%(after)s::uuid is null or k.task > %(after)s::uuid)
order by k.task
limit %(limit)s::integer
