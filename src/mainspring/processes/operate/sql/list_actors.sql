-- The actors: queues of tasks and deciders, with their policies and limits.
select q.name, q.policy::text, q.concurrency, q.rate, q.group_concurrency, q.group_rate
from mainspring.queue q
where q.kind in ('task', 'process', 'remote') and q.name not like 'mainspring.%%'
order by q.name
