-- Breakers that are not closed, those that were opened first in front, up to a number of them. Locks nothing. A scan of a small table.
select b.queue, nullif(b.grp, '') as "group", b.opened_at, b.until, b.until > mainspring.now() as is_open, b.at_once, b.failures, b.reason
from mainspring.breaker b
where b.opened_at is not null and (%(queue)s::text is null or b.queue = %(queue)s::text)
order by b.opened_at, b.queue, b.grp
limit %(limit)s::integer
