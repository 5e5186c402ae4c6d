-- A kind as it is registered.
select name, source, pool, crawl_every, mainspring.now() as now
from mainspring.kind
where name = %(kind)s::text
