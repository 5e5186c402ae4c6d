-- The first entities of a stage's queue (see the function).
select key, due_at, priority, attempt
from mainspring.peek(%(kind)s::text, %(stage)s::text, %(most)s::integer, %(crawl)s::boolean)
