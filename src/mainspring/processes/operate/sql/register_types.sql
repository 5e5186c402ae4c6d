-- Store what the code declares of process types. An operator's settings stand as long as the declaration is the same.
-- The pool is the code's alone, no setting of operators. Locks the rows in the order of their names.
insert into mainspring.process_type (name, settings, declared)
select d.name, d.declared::jsonb - 'pool', d.declared::jsonb
from unnest(%(names)s::text[], %(declared)s::text[]) as d(name, declared)
order by d.name
on conflict (name) do update
set settings = excluded.settings, declared = excluded.declared, changed_at = mainspring.now()
where mainspring.process_type.declared is distinct from excluded.declared
