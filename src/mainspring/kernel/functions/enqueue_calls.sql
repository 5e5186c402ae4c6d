-- When an id can have been made at the earliest, as a day of history: what a UUID of version 7 says of itself, with a day to spare.
-- Of any other id, and of one from the future, nothing is known. History before that day need not be looked at.
create or replace function mainspring.first_day_of(id uuid) returns date
  language sql stable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
    select case when substr(id::text, 15, 1) = '7' and made.at < mainspring.now() + interval '1 minute'
      then (made.at at time zone 'UTC')::date - 1 else '-infinity' end
    from (select to_timestamp(('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 1000.0) as at) made
  $$;

-- Whether a call is known by this id: in history, or live on another shard (under another group) than the one that was just inserted.
-- Rides the keys of history. To plan over all its days takes longer than to look, so that is done once a session.
create or replace function mainspring.was_enqueued(task text, id uuid, key text, shard integer) returns boolean
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $$
declare
  since constant date := mainspring.first_day_of(was_enqueued.id);
begin
  return exists (select from mainspring.history_run h
      where h.day >= since and h.key = was_enqueued.key and h.queue = was_enqueued.task and h.id = was_enqueued.id)
    or was_enqueued.key = was_enqueued.id::text and exists (select from mainspring.history_bundle p
      where p.day >= since and p.kin = left(was_enqueued.key, 8) and p.last_key >= was_enqueued.key and p.first_key <= was_enqueued.key
        and p.queue = was_enqueued.task and was_enqueued.id = any (p.ids))
    or exists (select from mainspring.visit v
      where v.key = was_enqueued.key and v.queue = was_enqueued.task and v.shard <> was_enqueued.shard
        and was_enqueued.id in (v.id, (v.follow_up ->> 'id')::uuid));
end
$$;

-- Place calls, all or none, whoever may: what follows has looked whether he does. Null key: by the arguments that the task is unique
-- by, else none. Null id: a new one. Null unique: as the task declares. Answers, in the order given, the call that is there now, the key
-- of its visit and what happened (unique.sql); where one is rejected nothing is done, and the others say "not placed".
-- A call whose id is known already, waiting, running or in history, is not placed again ("existing"): whoever had no answer may send it
-- once more. That holds for as long as history is kept.
-- Inserts in the order of the primary key, and meets those whose keys are taken in that order. History is looked at by a later statement
-- than the insert: a settle that removes a visit writes its history in the same commit, so when the insert has waited for that, history
-- has it. See was_enqueued.
create or replace function mainspring.place_calls(
  tasks text[], arguments text[], due_ats timestamptz[], delays interval[], expires_ats timestamptz[], priorities integer[],
  groups text[], keys text[], ids uuid[], uniques text[]
) returns table (id uuid, key text, outcome text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  shards constant integer := (select i.shard_count from mainspring.install i);
  moment constant timestamptz := mainspring.now();
  wanted uuid[];
  visit_keys text[];
  specs jsonb[];
  outcomes text[];
  item record;
  call mainspring.visit;
  met record;
  past uuid;
begin
  select array_agg(i.id order by i.n), array_agg(i.spec order by i.n),
      array_agg(mainspring.visit_key(i.id, i.grp, coalesce(i.own, mainspring.key_by_arguments(i.arguments, i.spec))) order by i.n)
    into wanted, specs, visit_keys
    from (
      select i.n, coalesce(i.id, mainspring.uuid7()) as id, i.grp, i.own, coalesce(i.unique_by::jsonb, q.declared -> 'unique') as spec,
        case when i.own is null and coalesce(i.unique_by::jsonb, q.declared -> 'unique') ? 'by' then i.arguments::jsonb end as arguments
      from unnest(tasks, arguments, groups, keys, ids, uniques) with ordinality as i(task, arguments, grp, own, id, unique_by, n)
      left join mainspring.queue q on q.name = i.task
      offset 0
    ) i;
  with item as (
    select mainspring.shard(coalesce(i.grp, i.key), shards) as shard, i.key, i.task, i.id, i.grp,
      coalesce(i.priority, (q.declared ->> 'priority')::integer, 5) as priority,
      greatest(coalesce(i.due_at, moment + i.delay, moment), moment) as due_at, i.expires_at, i.arguments, i.n
    from unnest(tasks, arguments, due_ats, delays, expires_ats, priorities, groups, visit_keys, wanted) with ordinality
      as i(task, arguments, due_at, delay, expires_at, priority, grp, key, id, n)
    left join mainspring.queue q on q.name = i.task
    order by 1, 2, 3, n
  ),
  fresh as (
    insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, expires_at, version, payload, created_at, changed_at)
    select shard, key, task, id, grp, priority, due_at, expires_at, mainspring.token(), arguments::jsonb, moment, moment from item
    on conflict do nothing
    returning queue, id
  )
  select array_agg(case when (i.task, i.id) in (select f.queue, f.id from fresh f) then 'new' end order by i.n) into outcomes
    from unnest(tasks, wanted) with ordinality as i(task, id, n);
  for item in
    select i.n::integer as n, i.task, i.key, i.id, ids[i.n] is not null as is_own, specs[i.n] as spec,
      mainspring.shard(coalesce(i.grp, i.key), shards) as shard, i.grp,
      greatest(coalesce(i.due_at, moment + i.delay, moment), moment) as due_at, i.expires_at,
      coalesce(i.priority, (select (q.declared ->> 'priority')::integer from mainspring.queue q where q.name = i.task), 5) as priority
    from unnest(tasks, due_ats, delays, expires_ats, priorities, groups, visit_keys, wanted) with ordinality
      as i(task, due_at, delay, expires_at, priority, grp, key, id, n)
    where outcomes[i.n] is null or ids[i.n] is not null or specs[i.n] ? 'done_within'
    order by shard, i.key, i.task, i.n
  loop
    past := null;
    if item.is_own then  -- nobody else ends it while history is looked at
      perform from mainspring.visit v where v.shard = item.shard and v.key = item.key and v.queue = item.task for update;
    end if;
    if item.is_own and mainspring.was_enqueued(item.task, item.id, item.key, item.shard) then
      past := item.id;
    elsif outcomes[item.n] = 'new' and item.spec ? 'done_within' then
      past := mainspring.done_since(item.task, item.key, moment - make_interval(secs => (item.spec ->> 'done_within')::double precision));
    end if;
    if past is not null then
      if outcomes[item.n] = 'new' then
        delete from mainspring.visit v where v.shard = item.shard and v.key = item.key and v.queue = item.task and v.id = item.id;
      end if;
      wanted[item.n] := past;
      outcomes[item.n] := case when past = item.id then 'existing' when item.spec ->> 'policy' = 'reject' then 'rejected' else 'done' end;
    end if;
    while outcomes[item.n] is null loop
      call := null;
      call.shard := item.shard;
      call.key := item.key;
      call.queue := item.task;
      call.id := item.id;
      call.grp := item.grp;
      call.priority := item.priority;
      call.due_at := item.due_at;
      call.expires_at := item.expires_at;
      call.payload := arguments[item.n];
      call.attempt := 0;
      call.created_at := moment;
      select m.* into met from mainspring.meet_call(call, item.spec) m;
      wanted[item.n] := met.told;
      outcomes[item.n] := met.outcome;
      if met.outcome is null then  -- the one that had the key has ended since
        insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, expires_at, version, payload, created_at, changed_at)
        values (call.shard, call.key, call.queue, call.id, call.grp, call.priority, call.due_at, call.expires_at, mainspring.token(),
          call.payload, moment, moment)
        on conflict do nothing;
        if found then
          wanted[item.n] := item.id;
          outcomes[item.n] := 'new';
        end if;
      end if;
    end loop;
  end loop;
  perform mainspring.wake(t.task, t.due_at)
    from (
      select i.task, greatest(min(coalesce(i.due_at, moment + i.delay, moment)), moment) as due_at
      from unnest(tasks, due_ats, delays, outcomes) as i(task, due_at, delay, outcome)
      where i.outcome = 'new'
      group by 1
    ) t;
  return query select r.id, r.key, r.outcome from unnest(wanted, visit_keys, outcomes) with ordinality as r(id, key, outcome, n) order by r.n;
end
$$;

-- The same, but nothing is done where one of several is rejected.
create or replace function mainspring.place_all(
  tasks text[], arguments text[], due_ats timestamptz[], delays interval[], expires_ats timestamptz[], priorities integer[],
  groups text[], keys text[], ids uuid[], uniques text[]
) returns table (id uuid, key text, outcome text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  placed jsonb;
begin
  if cardinality(tasks) = 1 or not exists (
    select from unnest(tasks, uniques) as i(task, spec) left join mainspring.queue q on q.name = i.task
    where coalesce(i.spec::jsonb, q.declared -> 'unique') ->> 'policy' = 'reject'
      or coalesce(i.spec::jsonb, q.declared -> 'unique') ->> 'on_parked' = 'reject')
  then
    return query
      select p.id, p.key, p.outcome
      from mainspring.place_calls(tasks, arguments, due_ats, delays, expires_ats, priorities, groups, keys, ids, uniques) p;
    return;
  end if;
  begin
    select jsonb_agg(jsonb_build_array(p.id, p.key, p.outcome)) into placed
      from mainspring.place_calls(tasks, arguments, due_ats, delays, expires_ats, priorities, groups, keys, ids, uniques) p;
    if jsonb_path_exists(placed, '$[*][2] ? (@ == "rejected")') then
      raise exception using errcode = 'MS001';  -- caught below: it undoes what was done
    end if;
  exception when sqlstate 'MS001' then
    return query select (r.row ->> 0)::uuid, r.row ->> 1, case when r.row ->> 2 = 'rejected' then 'rejected' else 'not placed' end
      from jsonb_array_elements(placed) with ordinality as r(row, n) order by r.n;
    return;
  end;
  return query select (r.row ->> 0)::uuid, r.row ->> 1, r.row ->> 2 from jsonb_array_elements(placed) with ordinality as r(row, n) order by r.n;
end
$$;

-- Enqueue calls, all or none, for whoever may enqueue these tasks (unique.sql and place_calls say what is done). At most 10,000, 2 MB each.
-- Null priority: the task's own. `uniques`: what a call with a taken key does, as JSON; null: as the task declares.
create or replace function mainspring.enqueue_each(
  tasks text[], arguments text[], due_ats timestamptz[], delays interval[], expires_ats timestamptz[], priorities integer[],
  groups text[], keys text[], ids uuid[], uniques text[]
) returns table (id uuid, key text, outcome text)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  moment timestamptz := mainspring.now();
  wrong record;
begin
  if cardinality(tasks) > 10000 then
    raise exception 'at most 10000 calls are enqueued at once, got %', cardinality(tasks)
      using errcode = 'program_limit_exceeded', hint = 'send them in several calls of one transaction';
  end if;
  select t.name, q.waiting_max into wrong from unnest(tasks) as t(name)
    left join mainspring.queue q on q.name = t.name and mainspring.may_enqueue(q)
    where q.name is null or q.is_full and q.waiting_max is not null limit 1;
  if wrong.waiting_max is not null then
    perform mainspring.refuse_full(wrong.name, wrong.waiting_max);
  elsif found then
    perform mainspring.refuse_task(coalesce(wrong.name, ''));
  end if;
  select i.task, i.fault into wrong
  from (
    select i.task, case
        when i.arguments is null or octet_length(i.arguments) > 2 * 1024 * 1024 then 'arguments must have at most 2097152 bytes'
        when i.priority not between 0 and 9 then 'priority must be 0 to 9'
        when coalesce(i.due_at, moment + i.delay, moment) >= timestamptz '9999-01-01 00:00:00+00' then 'due_at must be before the year 9999'
        when i.expires_at >= timestamptz '9999-01-01 00:00:00+00' then 'expires_at must be before the year 9999'
        when i.key = '' or octet_length(i.key) > 1024 then 'key must have 1 to 1024 bytes'
        when i.grp = '' or octet_length(i.grp) > 255 then 'group must have 1 to 255 bytes'
        when jsonb_typeof(i.arguments::jsonb) <> 'object' then 'arguments must be a JSON object'
        when not coalesce(i.spec::jsonb ->> 'policy', 'again') = any ('{again,existing,reject,replace,debounce,keep_earliest}')
          or not coalesce(i.spec::jsonb ->> 'on_parked', 'restart') = any ('{restart,return,reject}')
          or coalesce(jsonb_typeof(i.spec::jsonb -> 'by'), 'array') <> 'array' then 'there is no such way to be unique'
      end as fault
    from unnest(tasks, arguments, due_ats, delays, expires_ats, priorities, groups, keys, uniques)
      as i(task, arguments, due_at, delay, expires_at, priority, grp, key, spec)
  ) i where i.fault is not null limit 1;
  if found then
    raise exception 'a call of task % cannot be enqueued: %', quote_literal(wrong.task), wrong.fault
      using errcode = 'invalid_parameter_value';
  end if;
  return query
    select p.id, p.key, p.outcome
    from mainspring.place_all(tasks, arguments, due_ats, delays, expires_ats, priorities, groups, keys, ids, uniques) p;
end
$$;

-- The same as each task declares it, for callers that want to know no more than whether a call will have a run of its own. One that is
-- rejected is an error.
create or replace function mainspring.enqueue_calls(
  tasks text[], arguments text[], due_ats timestamptz[], delays interval[], expires_ats timestamptz[], priorities integer[],
  groups text[], keys text[], ids uuid[]
) returns table (id uuid, key text, is_new boolean)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  item record;
begin
  for item in
    select e.id, e.key, e.outcome
    from mainspring.enqueue_each(tasks, arguments, due_ats, delays, expires_ats, priorities, groups, keys, ids, null) e
  loop
    if item.outcome in ('rejected', 'not placed') then
      perform mainspring.refuse_taken(tasks, item.key, item.id);
    end if;
    id := item.id;
    key := item.key;
    is_new := item.outcome in ('new', 'after', 'restarted');
    return next;
  end loop;
end
$$;
