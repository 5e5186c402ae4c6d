-- The workers that serve a kind, by launch, and where each runs; of the launches given, if any are, those that still do.
-- A launch outlives the worker's id: one that was declared dead comes back with the same code. Locks nothing. Reads the workers, who
-- are few.
select coalesce(w.launch, w.id)::text as launch, w.host || ':' || w.process as process
from mainspring.worker w
where w.queues @> array[%(kind)s::text]
  and (%(launches)s::text[] is null or coalesce(w.launch, w.id)::text = any(%(launches)s::text[]))
order by process, launch
