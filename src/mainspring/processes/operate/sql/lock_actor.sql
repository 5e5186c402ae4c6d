-- An actor's policy and limits, locked for a change. No row: no code has declared it.
select q.policy::text, q.concurrency, q.rate, q.group_concurrency, q.group_rate
from mainspring.queue q
where q.name = %(name)s::text and q.kind in ('task', 'process', 'remote') and q.name not like 'mainspring.%%'
for update
