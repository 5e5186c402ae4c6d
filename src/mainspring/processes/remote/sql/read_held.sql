-- Until when visits are held under passes, whoever has their rows locked, and why not: 'overtaken' by another attempt or its
-- own end; 'cancelled' with its process, by it, or by itself; else 'gone'. Locks nothing. Rides the primary keys.
select i.n::integer as n, case when v.pass = i.pass and v.called_off is null then v.held_until end as held_until,
  case
    when v.key is null and t.state = 'cancelled' then 'cancelled'
    when v.key is null then 'gone'
    when v.pass is distinct from i.pass then 'overtaken'
    when v.called_off is not null then 'cancelled'
  end as stop
from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[], %(passes)s::bigint[],
  %(processes)s::text[]) with ordinality as i(shard, key, queue, pass, process, n)
left join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
left join mainspring.task t on t.process_id = nullif(i.process, '')::uuid and t.id = case when i.process <> '' then i.key::uuid end
