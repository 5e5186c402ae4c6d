-- What some codes of living workers mean. Locks nothing. A code never changes, so it is read once.
select distinct on (code) code, queues, turns
from mainspring.worker
where pool = %(pool)s::text and code = any(%(codes)s::text[])
