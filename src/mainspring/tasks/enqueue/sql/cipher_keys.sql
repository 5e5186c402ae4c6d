-- With which keys the waiting and parked calls of tasks are encrypted. Locks nothing; reads so many visits in
-- the order of their primary key, whatever they are: for `mainspring check`, which somebody waits for.
select queue, payload->'$'->>'key' as key, count(*)::int as calls
from (select queue, payload from mainspring.visit order by shard, key, queue limit %(most)s::int) v
where payload ? '$' and payload->'$'->>'key' is not null
group by 1, 2 order by 1, 2
