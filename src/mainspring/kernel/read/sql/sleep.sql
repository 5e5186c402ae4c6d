-- Say whether this worker sleeps, so that offers notify it. It reads once more after this before it waits.
update mainspring.worker
set asleep = %(asleep)s::boolean
where id = %(worker_id)s::uuid and asleep <> %(asleep)s::boolean
