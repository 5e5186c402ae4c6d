-- What the database has of some tasks: the fingerprint of all that was declared. Rides the primary key.
select task, declared, release, retired_at is not null as retired
from mainspring.reactive_task
where task = any(%(tasks)s::text[])
