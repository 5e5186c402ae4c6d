-- Bring these kept events to one consumer again (see the function). Locks those that are still in the outbox, in order.
select mainspring.replay_events(%(kind)s::text, %(consumer)s::text, %(numbers)s::bigint[], %(operation)s::bigint) as told
