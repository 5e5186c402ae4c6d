-- How a process stands, in one snapshot: whether something must be changed, and when it is to be looked at next.
-- Locks nothing. Rides the process's keys.
select p.state::text, mainspring.now() as now,
  coalesce((s.settings ->> 'idle_timeout')::double precision, 3600) as idle_timeout,
  p.created_at + make_interval(secs => coalesce((s.settings ->> 'process_timeout')::double precision, 86400)) as deadline_at,
  (select max(t.changed_at) from mainspring.task t where t.process_id = p.id) as changed_at,
  (select min(x.due_at) from mainspring.external x where x.process_id = p.id) as due_at,
  (select min(c.deadline_at) from mainspring.scope c where c.process_id = p.id and c.state = 'open') as scope_at,
  exists (select from mainspring.external x where x.process_id = p.id)
    and not exists (select from mainspring.task t
      where t.process_id = p.id and t.state = 'parked')
    and not exists (select from mainspring.task_view t
      where t.process_id = p.id and t.state = 'open' and t.has_visit) as is_waiting,
  (r.outcome is not null and not exists (select from mainspring.task t
      where t.process_id = p.id and t.state in ('open', 'external', 'parked')
        and coalesce(t.options ->> 'daemon', '') <> 'true'))
    or exists (select from mainspring.scope c
      where c.process_id = p.id and (c.state = 'failed' or (c.state = 'open' and c.deadline_at <= mainspring.now())))
    or exists (select from mainspring.parked_task k where k.process_id = p.id)
    or exists (select from mainspring.task_view t where t.process_id = p.id and t.state = 'open' and t.is_parked)
    or exists (select from mainspring.process_violation v where v.process_id = p.id) as must_change
from mainspring.process p
left join mainspring.task r on r.process_id = p.id and r.id = p.root
left join mainspring.process_type s on s.name = p.type
where p.id = %(id)s::uuid
