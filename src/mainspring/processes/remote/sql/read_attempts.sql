-- The visits of attempts at tasks, as they stand: retries are counted from the row, and searchable arguments are there too.
-- Whose hold each is under says which answers still count. Locks nothing: what is settled compares its version. Rides the primary key.
select i.n::integer as n, v.id, v.grp, v.priority, date_part('epoch', v.due_at) as due, v.version, least(v.attempt, 2147483645) as attempt, v.crashes, v.payload::text as payload, v.pass as run
from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[]) with ordinality as i(shard, key, queue, n)
join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
