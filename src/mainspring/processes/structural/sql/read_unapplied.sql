-- Results that were accepted and whose promises are open.
select t.id::text, 'ok' as outcome, t.result::text
from mainspring.task t
where t.process_id = %(process_id)s::uuid and t.id = any(%(tasks)s::uuid[]) and t.result is not null
