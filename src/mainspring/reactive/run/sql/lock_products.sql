-- Lock the params that ending runs set, by name, skipping those that somebody's open transaction has: their runs end later.
-- Answers their values. Rides param_by_name.
select p.name, p.kind, coalesce(p.num::text, p.ver) as value
from unnest(%(names)s::text[]) as n(name)
join mainspring.param p on p.name = n.name
order by p.name
for no key update of p skip locked
