-- How a process stands, in one snapshot: whether something must be changed, and when it is to be looked at next.
-- Locks nothing. Reads each task of the process once; rides the process's keys.
select p.state::text, mainspring.now() as now,
  coalesce((s.settings ->> 'idle_timeout')::double precision, 3600) as idle_timeout,
  p.created_at + make_interval(secs => coalesce((s.settings ->> 'process_timeout')::double precision, 86400)) as deadline_at,
  t.changed_at, least(x.due_at, t.starts_at) as due_at, c.scope_at,
  (x.n > 0 or t.starts_at is not null) and t.parked = 0 and t.queued = 0 as is_waiting,
  (r.outcome is not null and t.live = 0)
    or c.must_end
    or t.has_parked_visit
    or exists (select from mainspring.parked_task k where k.process_id = p.id) as must_change
from mainspring.process p
left join mainspring.task r on r.process_id = p.id and r.id = p.root
left join mainspring.process_type s on s.name = p.type
cross join lateral (
  select max(t.changed_at) as changed_at,
    count(*) filter (where t.state in ('open', 'external', 'parked') and coalesce(t.options ->> 'daemon', '') <> 'true'
      and t.actor not in ('@signal', '@sleep', '@gather', '@concat', '@first_of', '@some_of', '@call_off', '@every', '@answer', '@pass_on')) as live,
    count(*) filter (where t.state = 'parked') as parked,
    count(*) filter (where v.key is not null and not v.is_planned) as queued,
    min(v.due_at) filter (where v.is_planned) as starts_at,
    coalesce(bool_or(v.parked_at is not null), false) as has_parked_visit
  from mainspring.task t
  left join lateral (
    select v.key, v.parked_at, v.due_at,
      v.due_at > mainspring.now() and v.attempt = 0 and v.pass is null and v.parked_at is null as is_planned
    from mainspring.visit v
    where t.state = 'open' and v.key = t.id::text
      and (case when left(t.actor, 1) = '@' then left(v.queue, 18) = 'mainspring.process' else v.queue = t.actor end)
  ) v on true
  where t.process_id = p.id
) t
cross join lateral (
  select count(*) as n, min(x.due_at) as due_at from mainspring.external x where x.process_id = p.id
) x
cross join lateral (
  select min(c.deadline_at) filter (where c.state = 'open') as scope_at,
    coalesce(bool_or(c.state = 'failed' or (c.state = 'open' and c.deadline_at <= mainspring.now())), false) as must_end
  from mainspring.scope c where c.process_id = p.id
) c
where p.id = %(id)s::uuid
