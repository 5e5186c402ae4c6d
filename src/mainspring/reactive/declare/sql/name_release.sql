-- The number of a release, given when its fingerprint is first seen. Rides the unique index. One that another worker gives
-- meanwhile is in no snapshot of ours: the conflict answers it.
with fresh as (
  insert into mainspring.reactive_release (fingerprint, tasks)
  select %(fingerprint)s::text, %(tasks)s::text[]
  where not exists (select from mainspring.reactive_release where fingerprint = %(fingerprint)s::text)
  on conflict (fingerprint) do update set tasks = excluded.tasks
  returning number
)
select number from fresh
union all
select number from mainspring.reactive_release where fingerprint = %(fingerprint)s::text
