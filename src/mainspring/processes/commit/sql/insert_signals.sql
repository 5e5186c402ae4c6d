-- Store signals for the processes of a type and a key; one with the same id is the same one. Answers the process of each that has
-- one, whether the signal is new, and whether it was known before. Locks nothing that is there. Rides process_one_per_key.
with target as (
  select i.n, p.id, p.state, p.engine, i.name, i.signal, i.payload
  from unnest(%(types)s::text[], %(keys)s::text[], %(names)s::text[], %(ids)s::text[], %(payloads)s::text[]) with ordinality
    as i(type, key, name, signal, payload, n)
  cross join lateral (
    select p.id, p.state, p.engine from mainspring.process p where p.type = i.type and p.key = i.key
  ) p
),
stored as (
  insert into mainspring.signal (process_id, name, id, payload, sent_by)
  select id, name, signal, payload::jsonb, %(sent_by)s::text
  from target
  where state = 'open'
  order by n
  on conflict (process_id, name, id) do nothing
  returning process_id, name, id
)
select t.n, t.id::text as process_id, t.state::text, t.engine,
  exists (select from stored s where s.process_id = t.id and s.name = t.name and s.id = t.signal) as is_new,
  exists (select from mainspring.signal k where k.process_id = t.id and k.name = t.name and k.id = t.signal) as was_known
from target t
