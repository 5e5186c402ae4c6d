-- Parked tasks counted by process type, actor and error; the largest group first. Rides parked_task_group.
select k.type, k.actor, k.fingerprint, min(k.error_type) as error_type, count(*) as count, min(k.parked_at) as first_at,
  max(k.parked_at) as last_at, (array_agg(k.error order by k.parked_at desc))[1] as example,
  (array_agg(k.process_id::text order by k.parked_at desc))[1] as process_id
from mainspring.parked_task k
where (%(type)s::text is null or k.type = %(type)s::text)
  and (%(actor)s::text is null or k.actor = %(actor)s::text)
group by k.type, k.actor, k.fingerprint
order by count(*) desc, k.type, k.actor, k.fingerprint
