-- The processes of the workers that serve a kind, by host and number; of these given, if any are, those that still do.
-- Locks nothing. Reads the workers, who are few.
select distinct w.host || ':' || w.process as process
from mainspring.worker w
where w.queues @> array[%(kind)s::text]
  and (%(processes)s::text[] is null or w.host || ':' || w.process = any(%(processes)s::text[]))
order by 1
