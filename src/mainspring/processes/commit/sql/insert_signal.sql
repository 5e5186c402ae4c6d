-- Store a signal for a process; one with the same id is the same one, and one in the clear is not stored where values are
-- encrypted (a grant of a lock has none). Answers the process's state; no row: no process.
with target as (
  select id, state, engine, start ? '$' and not %(payload)s::text::jsonb ? '$' and left(%(name)s::text, 6) <> '@lock/' as is_clear from mainspring.process where id = %(process_id)s::uuid
),
stored as (
  insert into mainspring.signal (process_id, name, id, payload, sent_by)
  select id, %(name)s::text, %(id)s::text, %(payload)s::text::jsonb, %(sent_by)s::text
  from target
  where state = 'open' and not is_clear
  on conflict (process_id, name, id) do nothing
  returning id
)
select state::text, (select count(*) from stored) as stored, engine, is_clear
from target
