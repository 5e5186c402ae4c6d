-- What was set of a param, newest first; the next page begins before the last id. The chunks that a rewind named are answered
-- while the rewind is kept. Rides param_log_pkey and param_rewind_pkey.
select l.id, l.param, p.kind, coalesce(l.num::text, l.ver) as value, coalesce(l.old_num::text, l.old_ver) as old, l.is_rewind,
  l.changed_by, l.why, l.at,
  case when l.is_rewind then (select r.chunks from mainspring.param_rewind r where r.param = l.param and r.at = l.at
    order by r.number limit 1) end as chunks
from mainspring.param_log l
join mainspring.param p on p.name = l.param
where l.param = %(name)s::text and l.id < %(before)s::bigint
order by l.param, l.id desc
limit %(most)s::integer
