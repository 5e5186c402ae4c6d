-- Unite the search attributes of processes with new ones. Rides the primary key.
update mainspring.process p
set attrs = p.attrs || i.attrs
from json_to_recordset(%(items)s::text::json) as i(id uuid, attrs jsonb)
where p.id = i.id
