-- The pools' caps as the code declares them; an operator's change stands until the declaration changes. Answers those that
-- changed. Locks reactive_pool rows by name.
insert into mainspring.reactive_pool as p (pool, cap, reserve_max, declared)
select i.pool, i.cap, make_interval(secs => i.reserve), i.declared::jsonb
from unnest(%(pools)s::text[], %(caps)s::integer[], %(reserves)s::double precision[], %(declared)s::text[])
  as i(pool, cap, reserve, declared)
order by i.pool
on conflict (pool) do update
set cap = excluded.cap, reserve_max = excluded.reserve_max, declared = excluded.declared, changed_at = mainspring.clock()
where p.declared is distinct from excluded.declared
returning p.pool
