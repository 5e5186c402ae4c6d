-- A sign of life. No row: this worker was declared dead and must come back under another id.
-- A worker without slots is leaving: it still ends what it runs, but no shard is for it.
update mainspring.worker
set beat = beat + 1, beat_at = mainspring.now(), slots = %(slots)s::integer, free = %(free)s::integer
where id = %(worker_id)s::uuid
returning beat, extract(epoch from mainspring.clock())::double precision as now
