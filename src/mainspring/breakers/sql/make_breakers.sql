-- Rows of breakers that there are not yet, so that count_failures.sql finds each of them.
insert into mainspring.breaker (queue, grp)
select g.queue, g.grp
from unnest(%(queues)s::text[], %(groups)s::text[]) as g(queue, grp)
order by g.queue, g.grp
on conflict (queue, grp) do nothing
