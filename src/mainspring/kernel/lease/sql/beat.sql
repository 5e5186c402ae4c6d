-- A sign of life. No row: this worker was declared dead and must come back under another id.
-- A worker without slots is leaving: it still ends what it runs, but no shard is for it. `hanging` names its runs that hang (JSON).
update mainspring.worker
set beat = beat + 1, beat_at = mainspring.now(), slots = %(slots)s::integer, free = %(free)s::integer,
  hanging = %(hanging)s::text::jsonb
where id = %(worker_id)s::uuid
returning extract(epoch from mainspring.clock())::double precision as now
