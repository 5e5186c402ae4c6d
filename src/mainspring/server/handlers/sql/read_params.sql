-- Params by name, as callers from outside see them. Rides the primary key.
select p.name, p.kind, coalesce(p.num::text, p.ver) as value, p.revision, p.changed_at, p.changed_by
from mainspring.param p
where p.name = any (%(names)s::text[])
