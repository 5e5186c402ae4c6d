-- The last runs on an entity, newest first: system, stages, both lanes, relays. Rides history's primary key.
select h.queue, h.ended_at, h.outcome::text as outcome, h.superseded, h.error,
  h.payload::text as payload, h.result::text as result
from mainspring.history_run h
where h.key = %(key)s::text
  and (h.queue in (%(kind)s::text, %(kind)s::text || '~') or starts_with(h.queue, %(kind)s::text || '/')
    or starts_with(h.queue, %(kind)s::text || '!'))
order by h.ended_at desc, h.run desc
limit %(most)s::integer
