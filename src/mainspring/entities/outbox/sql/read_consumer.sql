-- A consumer of a kind that listens, and whether the kind keeps its events. Locks nothing. No row: there is none.
select k.source, (k.declared ->> 'keep_events')::double precision as keep_seconds
from mainspring.consumer c
join mainspring.kind k on k.name = c.kind
where c.kind = %(kind)s::text and c.name = %(consumer)s::text and c.retired_at is null
