-- A page of what was ordered, newest first. Rides the primary key backwards: ids rise with time.
select id, at, actor, via, address, action, target, reason, details::text as details, result, operation
from mainspring.audit
where id < coalesce(%(before)s::bigint, 9223372036854775807)
  and (%(actor)s::text is null or actor = %(actor)s::text)
  and (%(action)s::text is null or action = %(action)s::text or starts_with(action, %(action)s::text || '.'))
  and (%(target)s::text is null or target = %(target)s::text)
order by id desc
limit %(most)s::integer
