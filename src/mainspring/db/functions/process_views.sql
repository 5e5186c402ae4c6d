-- What every commit keeps true of a process; each rule by its number. Empty unless something is broken. One statement
-- sees one snapshot, so it needs no lock. Restricted to one process it rides the process's keys.
create or replace view mainspring.task_view as
  select t.process_id, t.id, t.created_by, t.creator_generation, t.promise, t.actor, t.state, t.waits, t.outcome,
    t.generation, t.done_no, t.outcome_no, t.options, t.changed_at,
    case when left(t.actor, 1) = '@' then 'mainspring.process' else t.actor end as queue,
    coalesce(e.inputs, 0) as inputs, coalesce(e.open_inputs, 0) as open_inputs, coalesce(e.stopping, 0) as stopping,
    coalesce(e.gone, 0) as gone, e.last_no, w.n as wait_n,
    v.key is not null as has_visit, v.parked_at is not null as is_parked, v.due_at, v.pass, v.held_until
  from mainspring.task t
  left join lateral (
    select count(*) filter (where e.kind <> 'handle') as inputs,
      count(*) filter (where e.kind <> 'handle' and p.id is not null and p.outcome is null) as open_inputs,
      count(*) filter (where e.kind in ('value', 'order') and p.outcome = 'err') as stopping,
      count(*) filter (where p.id is null) as gone,
      max(p.outcome_no) filter (where e.kind <> 'handle') as last_no
    from mainspring.edge e
    left join mainspring.task p on p.process_id = e.process_id and p.id = e.promise
    where e.process_id = t.process_id and e.task = t.id
  ) e on true
  left join mainspring.wait w on w.task = t.id
  left join mainspring.visit v on v.key = t.id::text
    and v.queue = case when left(t.actor, 1) = '@' then 'mainspring.process' else t.actor end;

create or replace view mainspring.process_violation as
  select 'I1' as rule, 'an open task has no visit and waits for nothing' as detail, process_id, id as task
    from mainspring.task_view where state = 'open' and not has_visit and open_inputs = 0
  union all
  select 'I1', 'a task that waits has a visit', process_id, id
    from mainspring.task_view
    where state = 'open' and has_visit and open_inputs > 0 and stopping = 0
      and not (actor = '@first_of' and open_inputs < inputs)
  union all
  select 'I1', 'an external task has a visit, or nothing that it waits for', t.process_id, t.id
    from mainspring.task_view t left join mainspring.external x on x.task = t.id
    where t.state = 'external' and (t.has_visit or x.task is null)
  union all
  select 'I1', 'a parked task has no parked visit', process_id, id
    from mainspring.task_view where state = 'parked' and not is_parked
  union all
  select 'I1', 'a task that has ended has a visit or a count', process_id, id
    from mainspring.task_view
    where state in ('done', 'cancelled', 'superseded') and (has_visit or wait_n is not null)
  union all
  select 'I1', 'a task that has ended waits outside or is listed as parked', t.process_id, t.id
    from mainspring.task t
    where t.state in ('open', 'done', 'cancelled', 'superseded')
      and (exists (select from mainspring.external x where x.task = t.id)
        or exists (select from mainspring.parked_task p where p.task = t.id and t.state <> 'open'))
  union all
  select 'I2', 'a count is not the number of open inputs', process_id, id
    from mainspring.task_view
    where state = 'open' and not has_visit and open_inputs > 0 and stopping = 0 and actor <> '@first_of'
      and not (waits = 1 and open_inputs = 1 and wait_n is null)
      and wait_n is distinct from open_inputs
  union all
  select 'I2', 'a first_of waits although an input is closed', process_id, id
    from mainspring.task_view
    where state = 'open' and not has_visit and actor = '@first_of' and open_inputs > 0
      and (open_inputs < inputs or (waits > 1 and wait_n is distinct from 1))
  union all
  select 'I3', 'a task waits although an error stops it', process_id, id
    from mainspring.task_view where state = 'open' and not has_visit and stopping > 0
  union all
  select 'I4', 'an open promise has not exactly one live task that fulfils it', t.process_id, t.id
    from mainspring.task t join mainspring.process p on p.id = t.process_id
    where p.state = 'open' and t.outcome is null and t.promise = t.id and t.state <> 'superseded'
      and (select count(*) from mainspring.task f
        where f.process_id = t.process_id and f.promise = t.id and f.state in ('open', 'external', 'parked')) <> 1
  union all
  select 'I4', 'a closed promise has a live task that would fulfil it', t.process_id, t.id
    from mainspring.task t
    where t.state in ('open', 'external', 'parked')
      and exists (select from mainspring.task p
        where p.process_id = t.process_id and p.id = t.promise and p.outcome is not null)
  union all
  select 'I7', 'a task was made by none that is done, or by an earlier generation', t.process_id, t.id
    from mainspring.task t
    join mainspring.task c on c.process_id = t.process_id and c.id = t.created_by
    where t.state <> 'superseded' and (c.state <> 'done' or c.generation <> t.creator_generation)
  union all
  select 'I8', 'a process has finished with a live task or an open root', p.id, p.root
    from mainspring.process p
    where p.state = 'finished'
      and (exists (select from mainspring.task t
          where t.process_id = p.id and t.state in ('open', 'external', 'parked'))
        or exists (select from mainspring.task t where t.process_id = p.id and t.id = p.root and t.outcome is null))
  union all
  select 'I8', 'a process was cancelled and has a live task', p.id, p.root
    from mainspring.process p
    where p.state = 'cancelled'
      and exists (select from mainspring.task t
        where t.process_id = p.id and t.state in ('open', 'external', 'parked'))
  union all
  select 'I11', 'a task is done and its input is open or closed later', process_id, id
    from mainspring.task_view
    where state = 'done' and stopping = 0 and actor <> '@first_of' and (open_inputs > 0 or last_no > done_no)
  union all
  select 'I12', 'an input is gone', process_id, id
    from mainspring.task_view where gone > 0 and state <> 'superseded'
  union all
  select 'I13', 'a signal was taken by a task that is not done, or by two', s.process_id, s.taken_by
    from mainspring.signal s
    left join mainspring.task t on t.process_id = s.process_id and t.id = s.taken_by
    where s.taken_by is not null and t.id is not null
      and (t.state not in ('done', 'cancelled', 'superseded') or t.generation <> s.taken_generation
        or exists (select from mainspring.signal o
          where o.process_id = s.process_id and o.taken_by = s.taken_by and o.no <> s.no));

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
