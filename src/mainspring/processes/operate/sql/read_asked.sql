-- What became of structural changes that an operation asked for, by the visits that do them: one that is there still
-- waits (or is parked), one that is gone has left its answer in history, or why it was called off. Settling writes both at once, so one snapshot
-- sees either. Locks nothing. Rides the primary keys, of history only the days since.
select i.n::integer - 1 as n, v.key is not null and v.parked_at is null as is_waiting, v.error, h.result::text as answer, h.called_off,
  mainspring.now() as now
from unnest(%(shards)s::integer[], %(keys)s::text[], %(queues)s::text[]) with ordinality as i(shard, key, queue, n)
left join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
left join lateral (
  select h.result, case when h.outcome = 'cancelled' then coalesce(h.error, '') end as called_off
  from mainspring.history_run h
  where h.key = i.key and h.day >= (%(since)s::timestamptz at time zone 'UTC')::date - 1 and h.outcome in ('done', 'cancelled')
  limit 1
) h on v.key is null
order by i.n
