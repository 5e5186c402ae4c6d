-- The kinds as they are registered; unserved: there are workers, but none has it.
select k.name, k.source, k.keys, k.version_column, k.capture, k.ignored, k.notify, k.pool,
  exists (select from mainspring.worker)
    and not exists (select from mainspring.worker w where k.name = any (w.queues)) as unserved
from mainspring.kind k
order by k.name
