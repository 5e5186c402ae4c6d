-- Enter consumers of kinds; one that was retired listens again. Locks nothing but the rows it changes.
insert into mainspring.consumer as c (kind, name, declared)
select i.kind, i.name, i.declared
from jsonb_to_recordset(%(consumers)s::text::jsonb) as i(kind text, name text, declared jsonb)
on conflict (kind, name) do update
set declared = excluded.declared, retired_at = null
where c.declared is distinct from excluded.declared or c.retired_at is not null
