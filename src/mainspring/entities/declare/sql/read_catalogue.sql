-- The stages and the consumers of a kind as they stand in the database, whatever this worker's code knows.
select 'stage' as what, s.name, s.interest, s.sees_own, null::text as of_stage, s.was
from mainspring.stage s
where s.kind = %(kind)s::text and s.retired_at is null
union all
select 'consumer', c.name, null, false, c.declared ->> 'stage', null
from mainspring.consumer c
where c.kind = %(kind)s::text and c.retired_at is null
order by 1, 2
