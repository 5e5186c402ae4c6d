-- Lock the visits of runs, so that a layer may write what belongs to them, and say how each stands: 'same' as it was
-- read, 'moved' (offered again meanwhile), 'settled' (before, by this very run), 'gone' (another's by now, or parked).
-- A visit that is not answered is locked by somebody, or does not exist. Rides the primary key.
select i.n::integer as n,
  case
    when v.version = i.run then 'settled'
    when v.id <> i.id or v.parked_at is not null then 'gone'
    when v.pass is not null and v.pass <> i.run and not i.any_pass then 'gone'
    when v.version = i.version then 'same'
    else 'moved'
  end as answer
from rows from (
    unnest(%(shards)s::text::integer[]), json_array_elements_text(%(keys)s::text::json),
    json_array_elements_text(%(queues)s::text::json), unnest(%(ids)s::text::uuid[]),
    unnest(%(versions)s::text::bigint[]), unnest(%(runs)s::text::bigint[]), unnest(%(any_pass)s::text::boolean[])
  ) with ordinality as i(shard, key, queue, id, version, run, any_pass, n)
join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
order by v.shard, v.key, v.queue
for update of v skip locked
