-- Signals that were taken by tasks which are redone go back to their buffer, or (fresh) are forgotten.
-- Answers how many went back.
with forgotten as (
  delete from mainspring.signal
  where process_id = %(process_id)s::uuid and taken_by = any(%(tasks)s::uuid[]) and %(fresh)s::boolean
)
update mainspring.signal
set taken_by = null, taken_generation = null, again = true
where process_id = %(process_id)s::uuid and taken_by = any(%(tasks)s::uuid[]) and not %(fresh)s::boolean
returning id
