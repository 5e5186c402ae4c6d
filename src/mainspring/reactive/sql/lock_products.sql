-- Lock the params that ending runs set, by name, skipping those that somebody's open transaction has: their runs end later.
-- Answers their values. Rides the primary key.
select name, kind, coalesce(num::text, ver) as value
from mainspring.param
where name = any(%(names)s::text[])
order by name
for no key update skip locked
