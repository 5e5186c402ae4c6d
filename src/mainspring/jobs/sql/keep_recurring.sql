-- Write schedules as the code declares them. What an operator changed stands until the declaration itself changes. changed_at is
-- since when the line and zone hold: no earlier tick is made up for. Answers the names of those that are new or changed.
with wanted as (
  select d.declared ->> 'queue' as queue, d.declared ->> 'target' as target, d.declared ->> 'cron' as cron,
    d.declared ->> 'zone' as zone, d.declared -> 'payload' as payload, (d.declared ->> 'priority')::smallint as priority,
    d.declared ->> 'group' as grp, d.declared ->> 'catch_up' as catch_up, (d.declared ->> 'catch_up_max')::integer as catch_up_max,
    d.declared ->> 'tick_argument' as tick_argument, d.declared, i.name
  from unnest(%(names)s::text[], %(declared)s::text[]) as i(name, text)
  cross join lateral (select i.text::jsonb as declared) d
)
insert into mainspring.recurring as r (name, queue, target, cron, zone, payload, priority, grp, catch_up, catch_up_max,
  tick_argument, declared, created_at, changed_at)
select name, queue, target, cron, zone, payload, priority, grp, catch_up, catch_up_max, tick_argument, declared, mainspring.now(),
  mainspring.now()
from wanted
order by name
on conflict (name) do update
set queue = excluded.queue, target = excluded.target, cron = excluded.cron, zone = excluded.zone, payload = excluded.payload,
  priority = excluded.priority, grp = excluded.grp, catch_up = excluded.catch_up, catch_up_max = excluded.catch_up_max,
  tick_argument = excluded.tick_argument, declared = excluded.declared, changed_by = null, revision = r.revision + 1,
  changed_at = case when (r.cron, r.zone) = (excluded.cron, excluded.zone) then r.changed_at else excluded.changed_at end
where r.declared is distinct from excluded.declared
  or r.changed_by is null and (r.queue, r.cron, r.zone, r.payload, r.priority)
    is distinct from (excluded.queue, excluded.cron, excluded.zone, excluded.payload, excluded.priority)
returning name
