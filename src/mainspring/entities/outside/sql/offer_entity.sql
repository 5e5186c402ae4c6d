-- Offer an entity to a stage or to the system stage (see the function).
select mainspring.offer(%(kind)s::text, %(id)s::text, %(stage)s::text, %(at)s::timestamptz)
