-- Take a stage out of the catalogue: it is asked and offered no more. Its visits and states stay where they are.
update mainspring.stage
set retired_at = now()
where kind = %(kind)s::text and name = %(stage)s::text and retired_at is null
returning name
