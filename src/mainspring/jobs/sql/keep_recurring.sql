-- Write recurring visits as the code declares them. changed_at is since when the line and zone hold: no earlier tick
-- is made up for. Answers the names of those that are new or whose line or zone changed.
insert into mainspring.recurring as r (name, queue, cron, zone, payload, priority, created_at, changed_at)
select d.name, d.queue, d.cron, d.zone, d.payload::jsonb, d.priority, mainspring.now(), mainspring.now()
from unnest(%(names)s::text[], %(queues)s::text[], %(crons)s::text[], %(zones)s::text[], %(payloads)s::text[],
  %(priorities)s::smallint[]) as d(name, queue, cron, zone, payload, priority)
order by d.name
on conflict (name) do update
set queue = excluded.queue, cron = excluded.cron, zone = excluded.zone, payload = excluded.payload, priority = excluded.priority,
  changed_at = case when (r.cron, r.zone) = (excluded.cron, excluded.zone) then r.changed_at else excluded.changed_at end
where (r.queue, r.cron, r.zone, r.payload, r.priority)
  is distinct from (excluded.queue, excluded.cron, excluded.zone, excluded.payload, excluded.priority)
returning name
