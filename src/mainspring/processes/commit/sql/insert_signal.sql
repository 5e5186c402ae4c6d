-- Store a signal for a process; one with the same id is the same one. Answers the process's state; no row: no process.
with target as (
  select id, state, engine from mainspring.process where id = %(process_id)s::uuid
),
stored as (
  insert into mainspring.signal (process_id, name, id, payload, sent_by)
  select id, %(name)s::text, %(id)s::text, %(payload)s::text::jsonb, %(sent_by)s::text
  from target
  where state = 'open'
  on conflict (process_id, name, id) do nothing
  returning id
)
select state::text, (select count(*) from stored) as stored, engine
from target
