-- Call a call off: answers how it stands then, null if nothing is known of it (functions/cancel.sql says what it locks and rides).
select mainspring.cancel(%(task)s::text, %(id)s::uuid, %(key)s::text, null, %(reason)s::text) as state
