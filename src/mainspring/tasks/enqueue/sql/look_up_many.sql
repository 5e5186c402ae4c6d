-- What became of calls; one that is unknown has no row.
select i.n, r.state, r.result, r.error
from unnest(%(numbers)s::integer[], %(queues)s::text[], %(ids)s::uuid[], %(keys)s::text[]) as i(n, queue, id, key)
cross join lateral mainspring.result_of(i.queue, i.id, i.key) r
