-- Lock those of these visits that nobody has locked, so that a settle need not wait for the others.
select i.n::integer as n
from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[]) with ordinality as i(shard, key, queue, n)
join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
order by v.shard, v.key, v.queue
for update of v skip locked
