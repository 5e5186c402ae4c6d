-- A kind as it is registered.
select source, crawl_every, mainspring.now() as now
from mainspring.kind
where name = %(kind)s::text
