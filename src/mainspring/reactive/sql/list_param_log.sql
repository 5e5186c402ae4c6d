-- What was set of a param, newest first; the next page begins before the last id. Rides param_log_of_param.
select l.id, l.param, p.kind, coalesce(l.num::text, l.ver) as value, coalesce(l.old_num::text, l.old_ver) as old, l.is_rewind,
  l.changed_by, l.why, l.at
from mainspring.param_log l
join mainspring.param p on p.name = l.param
where l.param = %(name)s::text and l.id < %(before)s::bigint
order by l.param, l.id desc
limit %(most)s::integer
