-- The consumers of a kind that listen.
select name
from mainspring.consumer
where kind = %(kind)s::text and retired_at is null
order by name
