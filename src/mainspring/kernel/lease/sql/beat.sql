-- A sign of life. No row: this worker was declared dead and must come back under another id.
-- A worker without slots is leaving: it still ends what it runs, but no shard is for it. `hanging` names its runs that hang (JSON).
-- `away` names the endpoints that it finds away; null: those of the beat before.
update mainspring.worker
set beat = beat + 1, beat_at = mainspring.now(), slots = %(slots)s::integer, free = %(free)s::integer,
  hanging = %(hanging)s::text::jsonb, away = coalesce(%(away)s::text::jsonb, away)
where id = %(worker_id)s::uuid
returning extract(epoch from mainspring.clock())::double precision as now
