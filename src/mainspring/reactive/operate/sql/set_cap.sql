-- Set a pool's cap and how long its reservations may last; stands until the code's declaration changes. Locks the pool's row.
insert into mainspring.reactive_pool (pool, cap, reserve_max)
values (%(pool)s::text, %(cap)s::integer, coalesce(make_interval(secs => %(reserve)s::double precision), interval '2 minutes'))
on conflict (pool) do update
set cap = excluded.cap, changed_at = mainspring.clock(),
  reserve_max = coalesce(make_interval(secs => %(reserve)s::double precision), mainspring.reactive_pool.reserve_max)
