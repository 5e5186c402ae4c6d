-- Have a call run now that is for later: answers how it stands then (functions/cancel.sql says what it locks and rides).
select mainspring.run_now(%(task)s::text, %(id)s::uuid, %(key)s::text) as state
