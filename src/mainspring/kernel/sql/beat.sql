-- A sign of life. No row: this worker was declared dead and must come back under another id.
update mainspring.worker
set beat = beat + 1, free = %(free)s::integer
where id = %(worker_id)s::uuid
returning beat, extract(epoch from mainspring.clock())::double precision as now
