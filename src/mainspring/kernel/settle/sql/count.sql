-- Add to counters of the present minute. Locks their rows in the order of their keys.
insert into mainspring.counter as c (actor, name, minute, n)
select i.actor, i.name, date_trunc('minute', mainspring.now()), count(*)
from unnest(%(actors)s::text[], %(names)s::text[]) as i(actor, name)
group by 1, 2
order by 1, 2
on conflict (actor, name, minute) do update set n = c.n + excluded.n
