-- The pool whose workers should run an operation: one that somebody serves, the default one first. Locks nothing.
-- A worker that was not heard of for a minute does not count. No row: nobody is there.
select pool
from mainspring.worker
where slots > 0 and beat_at > mainspring.now() - interval '1 minute'
order by pool <> 'default', pool
limit 1
