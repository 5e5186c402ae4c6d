-- Which runs do not have their visits any more: 'gone' (deleted or settled, and what has its key now is another), 'changed'
-- (somebody else's, and under another version: no result of this run counts) 'called_off' (held by this run, which is to end)
-- or 'overtaken' (somebody else's, and this
-- run's result counts if it is the first). Locks nothing. Rides the primary key.
select i.run, case when v.id is null then 'gone' when v.pass = i.run then 'called_off' when v.version <> i.version then 'changed' else 'overtaken' end as what
from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[], %(ids)s::uuid[], %(versions)s::bigint[],
  %(runs)s::bigint[]) as i(shard, key, queue, id, version, run)
left join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue and v.id = i.id
where v.id is null or v.pass is distinct from i.run or v.called_off is not null
