-- All workers of the pool, as of now.
select id, beat, queues, slots, free, started_at, host, process, bundles
from mainspring.worker where pool = %(pool)s::text
