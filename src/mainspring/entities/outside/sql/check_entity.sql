-- In which queues an entity is (see the function).
select queue, stage, lane, due_at, state, attempt, error
from mainspring.check_entity(%(kind)s::text, %(id)s::text)
