-- What every commit keeps true of a process; each rule by its number. Empty unless something is broken. One statement
-- sees one snapshot, so it needs no lock. Restricted to one process it rides the process's keys.
create or replace view mainspring.task_view as
  select t.process_id, t.id, t.created_by, t.creator_generation, t.promise, t.actor, t.state, t.waits, t.outcome,
    t.generation, t.done_no, t.outcome_no, t.options, t.changed_at,
    case when left(t.actor, 1) = '@' then 'mainspring.process' else t.actor end as queue,
    coalesce(e.inputs, 0) as inputs, coalesce(e.open_inputs, 0) as open_inputs, coalesce(e.stopping, 0) as stopping,
    coalesce(e.gone, 0) as gone, e.last_no, w.n as wait_n,
    v.key is not null as has_visit, v.parked_at is not null as is_parked, v.due_at, v.pass, v.held_until,
    case when t.actor = '@some_of' then coalesce((t.args ->> 'need')::integer, 1)
      - case when t.args ? 'ends' then e.inputs - e.open_inputs else e.kept end end as need
  from mainspring.task t
  left join (
    select e.process_id, e.task, count(*) filter (where e.kind <> 'handle') as inputs,
      count(*) filter (where e.kind <> 'handle' and p.id is not null and p.outcome is null) as open_inputs,
      count(*) filter (where e.kind in ('value', 'order') and p.outcome = 'err') as stopping,
      count(*) filter (where p.id is null) as gone,
      max(p.outcome_no) filter (where e.kind <> 'handle') as last_no,
      count(*) filter (where e.kind <> 'handle' and p.outcome = 'ok') as kept
    from mainspring.edge e
    left join mainspring.task p on p.process_id = e.process_id and p.id = e.promise
    group by e.process_id, e.task
  ) e on e.process_id = t.process_id and e.task = t.id
  left join mainspring.wait w on w.process_id = t.process_id and w.task = t.id
  left join mainspring.visit v on v.key = t.id::text
    and (case when left(t.actor, 1) = '@' then left(v.queue, 18) = 'mainspring.process' else v.queue = t.actor end);

-- All tasks are read once; each rule is a condition on what was read.
create or replace view mainspring.process_violation as
  select r.rule, r.detail, t.process_id, t.id as task
    from mainspring.task_view t
    cross join lateral (values
      ('I1', 'an open task has no visit and waits for nothing', t.state = 'open' and not t.has_visit and t.open_inputs = 0),
      ('I1', 'a task that waits has a visit', t.state = 'open' and t.has_visit and t.open_inputs > 0 and t.stopping = 0
        and not (t.actor in ('@first_of', '@some_of') and t.open_inputs < t.inputs)),
      ('I1', 'an external task has a visit', t.state = 'external' and t.has_visit),
      ('I1', 'a parked task has no visit', t.state = 'parked' and not t.has_visit),
      ('I1', 'a task that has ended has a visit or a count',
        t.state in ('done', 'cancelled', 'superseded') and (t.has_visit or t.wait_n is not null)),
      ('I2', 'a count is not the number of open inputs',
        t.state = 'open' and not t.has_visit and t.open_inputs > 0 and t.stopping = 0 and t.actor not in ('@first_of', '@some_of')
        and not (t.waits = 1 and t.open_inputs = 1 and t.wait_n is null) and t.wait_n is distinct from t.open_inputs),
      ('I2', 'a first_of waits although an input is closed',
        t.state = 'open' and not t.has_visit and t.actor = '@first_of' and t.open_inputs > 0
        and (t.open_inputs < t.inputs or (t.waits > 1 and t.wait_n is distinct from 1))),
      ('I2', 'a race waits for no end, or for more than would decide it',
        t.state = 'open' and not t.has_visit and t.actor = '@some_of' and t.open_inputs > 0
        and (t.need is null or coalesce(t.wait_n, case when t.waits = 1 then 1 end, 0) not between 1 and least(t.open_inputs, t.need))),
      ('I3', 'a task waits although an error stops it', t.state = 'open' and not t.has_visit and t.stopping > 0),
      ('I11', 'a task is done and its input is open or closed later',
        t.state = 'done' and t.stopping = 0 and t.actor not in ('@first_of', '@some_of') and (t.open_inputs > 0 or t.last_no > t.done_no)),
      ('I12', 'an input is gone', t.gone > 0 and t.state <> 'superseded')
    ) as r(rule, detail, is_broken)
    where r.is_broken
  union all
  select 'I1', 'an external task has nothing that it waits for', t.process_id, t.id
    from mainspring.task t
    where t.state = 'external' and not exists (select from mainspring.external x where x.process_id = t.process_id and x.task = t.id)
  union all
  select 'I1', 'a task that has ended waits outside or is listed as parked', x.process_id, x.task
    from mainspring.external x join mainspring.task t on t.process_id = x.process_id and t.id = x.task
    where t.state <> 'external'
  union all
  select 'I1', 'a task that has ended waits outside or is listed as parked', k.process_id, k.task
    from mainspring.parked_task k join mainspring.task t on t.process_id = k.process_id and t.id = k.task
    where t.state in ('done', 'cancelled', 'superseded')
  union all
  select 'I1', 'a task sleeps and has no timer', x.process_id, x.task
    from mainspring.external x
    where x.due_at is not null
      and not exists (select from mainspring.visit v where v.key = 'timer/' || x.task::text and left(v.queue, 18) = 'mainspring.process')
  union all
  select 'I1', 'a task waits for a child that has ended', x.process_id, x.task
    from mainspring.external x
    where x.kind = 'child'
      and not exists (select from mainspring.process c where c.id = x.child and c.state = 'open')
      and not exists (select from mainspring.visit v where v.key = 'child/' || x.task::text and left(v.queue, 18) = 'mainspring.process')
  union all
  select 'I4', case when t.state = 'done' and t.result is not null then 'a result was accepted and its promise is open'
      else 'an open promise has not exactly one live task that fulfils it' end, t.process_id, t.id
    from mainspring.task t join mainspring.process p on p.id = t.process_id
    where p.state = 'open' and t.outcome is null and t.promise = t.id and t.state in ('done', 'cancelled')
      and not exists (select from mainspring.task f
        where f.process_id = t.process_id and f.promise = t.id and f.state in ('open', 'external', 'parked'))
  union all
  select 'I4', 'an open promise has not exactly one live task that fulfils it', t.process_id, t.promise
    from mainspring.task t
    where t.state in ('open', 'external', 'parked')
    group by t.process_id, t.promise
    having count(*) > 1
  union all
  select 'I4', 'a closed promise has a live task that would fulfil it', t.process_id, t.id
    from mainspring.task t join mainspring.task p on p.process_id = t.process_id and p.id = t.promise
    where t.state in ('open', 'external', 'parked') and p.outcome is not null
  union all
  select 'I7', 'a task was made by none that is done, or by an earlier generation', t.process_id, t.id
    from mainspring.task t join mainspring.task c on c.process_id = t.process_id and c.id = t.created_by
    where t.state <> 'superseded' and (c.state <> 'done' or c.generation <> t.creator_generation)
  union all
  select 'I8', 'a process has ended with a live task or an open root', p.id, p.root
    from mainspring.process p
    where p.state <> 'open'
      and (exists (select from mainspring.task t
          where t.process_id = p.id and t.state in ('open', 'external', 'parked'))
        or exists (select from mainspring.task t where t.process_id = p.id and t.id = p.root and t.outcome is null))
  union all
  -- Whoever ends the last task asks for a look where it cannot finish the process itself: until then it is due.
  select 'I8', 'a process is open and all of it has ended', p.id, p.root
    from mainspring.process p join mainspring.task r on r.process_id = p.id and r.id = p.root
    where p.state = 'open' and r.outcome is not null
      and not exists (select from mainspring.task t
        where t.process_id = p.id and t.state in ('open', 'external', 'parked') and coalesce(t.options ->> 'daemon', '') <> 'true'
          and t.actor not in ('@signal', '@sleep', '@gather', '@concat', '@first_of', '@some_of', '@call_off', '@every', '@answer', '@pass_on'))
      and not exists (select from mainspring.visit v
        where v.key in ('look/' || p.id::text, 'end/' || p.id::text) and left(v.queue, 18) = 'mainspring.process'
          and v.parked_at is null and (v.due_at <= mainspring.now() or v.attempt > 0))
  union all
  select 'I12', case when exists (select from mainspring.task t where t.process_id = p.id) then 'the first task is gone'
      else 'a process has no first task' end, p.id, p.root
    from mainspring.process p
    where p.state = 'open' and not exists (select from mainspring.task t where t.process_id = p.id and t.id = p.root)
  union all
  select 'I13', 'a signal was taken by a task that is not done, or by two', s.process_id, s.taken_by
    from mainspring.signal s join mainspring.task t on t.process_id = s.process_id and t.id = s.taken_by
    where t.state not in ('done', 'cancelled', 'superseded') or t.generation <> s.taken_generation
      or exists (select from mainspring.signal o
        where o.process_id = s.process_id and o.taken_by = s.taken_by and o.no <> s.no);

-- Rows of processes that refer to what is gone (I12). Reads whole tables: for checks on demand and tests.
create or replace view mainspring.process_orphan as
  select 'I12' as rule, 'a visit has no task' as detail, (v.payload ->> '@')::uuid as process_id, v.key as subject
    from mainspring.visit v
    where v.payload ? '@' and v.key !~ '/'
      and not exists (select from mainspring.task t where t.process_id = (v.payload ->> '@')::uuid and t.id = v.key::uuid)
  union all
  select 'I12', 'a task has no process', t.process_id, t.id::text
    from mainspring.task t where not exists (select from mainspring.process p where p.id = t.process_id)
  union all
  select 'I12', 'an edge has no task', e.process_id, e.task::text
    from mainspring.edge e
    where not exists (select from mainspring.task t where t.process_id = e.process_id and t.id = e.task)
  union all
  select 'I12', 'a count has no task', w.process_id, w.task::text
    from mainspring.wait w
    where not exists (select from mainspring.task t where t.process_id = w.process_id and t.id = w.task);

-- Locks that count: of who waits for one, and of who holds one until the promise of its scope is closed; where its process is
-- being cancelled, until the compensations have ended. So a lock is released by what ends its scope, in the same commit.
create or replace view mainspring.process_lock_live as
  select l.no, l.name, l.process_id, l.task, l.generation, l.scope_id, l.asked_at, l.held_at, p.type, p.key, s.parent,
    s.state <> 'open' or p.cancelling_at is not null as is_ending
  from mainspring.process_lock l
  join mainspring.process p on p.id = l.process_id and p.state = 'open'
  join mainspring.task t on t.process_id = l.process_id and t.id = l.task and t.generation = l.generation
  join mainspring.scope s on s.id = l.scope_id
  join mainspring.task r on r.process_id = l.process_id and r.id = s.promise
  where case when l.held_at is null then t.state = 'external'
    else t.state in ('external', 'done') and (r.outcome is null or (s.state = 'undoing' and p.cancelling_at is not null)) end;
