-- mark_closing.sql for several processes; one that somebody has is left out. Rides the primary key.
with free as materialized (
  select id from mainspring.process where id = any(%(ids)s::uuid[]) order by id for no key update skip locked
)
update mainspring.process p
set closing_at = mainspring.now()
from free f
where p.id = f.id
