-- What the database has of some tasks that a release above a number has written: the fingerprint of all that was declared.
-- Rides the primary key.
select task, declared, release, retired_at is not null as retired
from mainspring.reactive_task
where task = any(%(tasks)s::text[]) and release > %(above)s::bigint
