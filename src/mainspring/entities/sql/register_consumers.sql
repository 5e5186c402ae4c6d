-- Enter consumers of kinds; one that was retired listens again. One that did not listen before may begin with a snapshot.
-- Locks nothing but the rows it changes.
with item as materialized (
  select i.kind, i.name, i.declared, i.start
  from jsonb_to_recordset(%(consumers)s::text::jsonb) as i(kind text, name text, declared jsonb, start text)
),
listened as materialized (
  select c.kind, c.name from mainspring.consumer c join item i on i.kind = c.kind and i.name = c.name where c.retired_at is null
),
entered as (
insert into mainspring.consumer as c (kind, name, declared)
select i.kind, i.name, i.declared
from item i
on conflict (kind, name) do update
set declared = excluded.declared, retired_at = null
where c.declared is distinct from excluded.declared or c.retired_at is not null
returning c.kind, c.name
)
select mainspring.resend_soon(e.kind, e.name) as begun
from entered e
join item i on i.kind = e.kind and i.name = e.name and i.start = 'snapshot'
where not exists (select from listened l where l.kind = e.kind and l.name = e.name)
