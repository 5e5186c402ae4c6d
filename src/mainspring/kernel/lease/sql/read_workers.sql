-- All workers of the pool, as of now. Their queues only where no code names them (of the release before).
select id, beat, case when code is null then queues end as queues, slots, free, started_at, host, process, bundles, code
from mainspring.worker where pool = %(pool)s::text
