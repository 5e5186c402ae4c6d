-- Unite the search attributes of processes with new ones; null takes one away. Locks process rows in the order of the
-- items, which is that of the ids; one of a process. Rides the primary key.
with mine as materialized (
  select p.id, i.attrs
  from json_to_recordset(%(items)s::text::json) as i(id uuid, attrs jsonb)
  cross join lateral (select p.id from mainspring.process p where p.id = i.id for no key update) p
)
update mainspring.process p
set attrs = jsonb_strip_nulls(p.attrs || m.attrs)
from mine m
where p.id = m.id
