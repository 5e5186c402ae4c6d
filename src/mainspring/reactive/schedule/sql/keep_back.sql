-- Note when running producers first kept another task back: their reservation ends a bounded time later. Rides the primary key.
update mainspring.reactive_task
set kept_back_at = mainspring.clock()
where task = any(%(tasks)s::text[]) and admitted_at is not null and kept_back_at is null
