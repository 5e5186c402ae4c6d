-- What became of calls; one that is unknown has no row (functions/result_of.sql says what it rides).
select i.task, i.id::text as id, i.key, r.state, r.result, r.error
from unnest(%(tasks)s::text[], %(ids)s::uuid[], %(keys)s::text[]) as i(task, id, key)
cross join lateral mainspring.result_of(i.task, i.id, i.key) r
