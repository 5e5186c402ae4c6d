-- Calls under a key: what a call comes to whose key is taken, and what becomes of one that waits behind a run. docs/design/tasks.md
-- has the protocol, tests/model/unique_protocol.py walks it.

-- The key of a call's visit: its id, or the user's key, within its group if there is one.
create or replace function mainspring.visit_key(id uuid, grp text, key text) returns text
  language sql immutable parallel safe
  return case
    when key is null then id::text
    when grp is null and key !~ '^[0-9]+:' then key
    else octet_length(coalesce(grp, '')) || ':' || coalesce(grp, '') || ':' || key
  end;

-- The key of a call that is unique by some of its arguments: a digest of these in one form. What is not given has its default.
create or replace function mainspring.key_by_arguments(arguments jsonb, spec jsonb) returns text
  language sql immutable parallel safe
  set search_path = pg_catalog, pg_temp
  as $$
    select 'by ' || encode(sha256(convert_to(
      jsonb_object_agg(f.name, coalesce(arguments -> f.name, spec -> 'defaults' -> f.name))::text, 'UTF8')), 'hex')
    from jsonb_array_elements_text(spec -> 'by') as f(name)
    having count(*) > 0
  $$;

-- A call ends without a run: say so in history, so that whoever asks for its result is told, and an operator can put it back.
create or replace function mainspring.close_call(call mainspring.visit, outcome mainspring.outcome, reason text) returns void
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    insert into mainspring.history_run (day, run, id, queue, key, grp, priority, attempt, outcome, worker_id, created_at, due_at,
      started_at, ended_at, duration_ms, error, payload, searchable)
    select (mainspring.now() at time zone 'UTC')::date, mainspring.token(), call.id, call.queue, call.key, call.grp, call.priority,
      case when call.parked_at is null then least(call.attempt, 2147483646) + 1 else greatest(1, call.attempt) end,
      close_call.outcome, '00000000-0000-0000-0000-000000000000', call.created_at, call.due_at, mainspring.now(), mainspring.now(), 0,
      reason, call.payload,
      (select array_agg(left(f || '=' || (call.payload ->> f), 500))
        from mainspring.queue q, unnest(q.searchable) f where q.name = call.queue and call.payload ? f)
  $$;

-- The call that waits behind a run, as a visit.
create or replace function mainspring.follower_of(visit mainspring.visit) returns mainspring.visit
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
declare
  call mainspring.visit;
begin
  call.shard := visit.shard;
  call.key := visit.key;
  call.queue := visit.queue;
  call.grp := visit.grp;
  call.id := visit.follow_up ->> 'id';
  call.priority := visit.follow_up ->> 'priority';
  call.due_at := visit.follow_up ->> 'due_at';
  call.expires_at := visit.follow_up ->> 'expires_at';
  call.created_at := visit.follow_up ->> 'created_at';
  call.payload := visit.follow_up -> 'payload';
  call.attempt := 0;
  return call;
end
$$;

-- The visit is gone: the call that waits behind it takes its place. An AFTER trigger sees the row as it was when it went, which no
-- snapshot of the statement does.
create or replace function mainspring.follow_end() returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
declare
  call constant mainspring.visit := mainspring.follower_of(old);
  due_at constant timestamptz := greatest(call.due_at, mainspring.now());
begin
  insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, expires_at, version, payload, created_at, changed_at)
  values (call.shard, call.key, call.queue, call.id, call.grp, call.priority, due_at, call.expires_at, mainspring.token(), call.payload,
    call.created_at, mainspring.now());
  perform mainspring.wake(call.queue, due_at);
  return null;
end
$$;

-- The visit is parked: nothing waits behind what waits for an operator. The parked call is history's; from there it can be put back.
create or replace function mainspring.follow_park() returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
  as $$
begin
  perform mainspring.close_call(new, 'cancelled', mainspring.gave_way(new, (new.follow_up ->> 'id')::uuid));
  perform mainspring.take_place(new, mainspring.follower_of(new));
  return null;
end
$$;

-- What is said of a parked call that gave way to a later one.
create or replace function mainspring.gave_way(parked mainspring.visit, to_call uuid) returns text
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select 'parked, then gave way to call ' || to_call || ' under its key' || coalesce(': ' || parked.error, '')
  $$;

-- A call takes the place of the one that has its key, which has ended: nothing of that is counted against it.
create or replace function mainspring.take_place(ended mainspring.visit, call mainspring.visit) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  due timestamptz := greatest(call.due_at, mainspring.now());
begin
  update mainspring.visit v
  set id = call.id, priority = call.priority, due_at = due, expires_at = call.expires_at, payload = call.payload,
    version = mainspring.token(), attempt = 0, crashes = 0, work_timeouts = 0, error = null, error_type = null, fingerprint = null, parked_at = null, called_off = null,
    offered_while_parked = false, follow_up = null, created_at = call.created_at, changed_at = mainspring.now()
  where v.shard = ended.shard and v.key = ended.key and v.queue = ended.queue;
  perform mainspring.wake(call.queue, due);
end
$$;

-- A call meets the one that has its key: the rule of uniqueness, here and nowhere else. The row is locked until the caller commits, so a
-- run that he is told of begins after that and sees what he wrote.
--   parked    by `on_parked`: the call takes its place ("restarted"), or is told of it ("parked"), or refused
--   running   the call waits behind the run ("after"), unless one waits there already
--   waiting   by `policy`: told of it ("existing"), or its arguments, time and priority are changed ("replaced", "debounced")
-- Whoever is told of a waiting one writes a new version: a run of it that is lost, and settles late, does not count (S23).
-- No outcome: the key is free by now, and the call is to be inserted again. Rides the primary key; locks that one row.
create or replace function mainspring.meet_call(call mainspring.visit, spec jsonb, out told uuid, out outcome text)
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  policy constant text := coalesce(spec ->> 'policy', 'again');
  taken mainspring.visit;
  waiting mainspring.visit;
  is_behind boolean;
begin
  select v.* into taken from mainspring.visit v
  where v.shard = call.shard and v.key = call.key and v.queue = call.queue
  for update;
  if not found then
    return;
  end if;
  is_behind := taken.follow_up is not null;
  if call.id in (taken.id, (taken.follow_up ->> 'id')::uuid) then  -- sent once more
    told := call.id;
    outcome := 'existing';
    return;
  end if;
  if taken.parked_at is not null then
    told := taken.id;
    outcome := case coalesce(spec ->> 'on_parked', 'restart') when 'return' then 'parked' when 'reject' then 'rejected' else 'restarted' end;
    if outcome = 'restarted' then
      perform mainspring.close_call(taken, 'cancelled', mainspring.gave_way(taken, call.id));
      perform mainspring.take_place(taken, call);
      told := call.id;
    end if;
    return;
  end if;
  waiting := case when is_behind then mainspring.follower_of(taken) else taken end;
  told := waiting.id;
  if policy = 'reject' then
    outcome := 'rejected';
    return;
  end if;
  if not is_behind and taken.pass is not null then
    if policy = 'existing' then
      outcome := 'existing';
    else
      outcome := 'after';
      told := call.id;
      perform mainspring.wait_behind(taken, call);
    end if;
    return;
  end if;
  if waiting.expires_at <= mainspring.now() then  -- it will not run any more
    perform mainspring.close_call(waiting, 'expired', 'a call under its key came after it had expired');
    told := call.id;
    if is_behind then
      outcome := 'after';
      perform mainspring.wait_behind(taken, call);
    else
      outcome := 'new';
      perform mainspring.take_place(taken, call);
    end if;
    return;
  end if;
  outcome := case
    when policy = 'replace' then 'replaced'
    when policy = 'debounce' then 'debounced'
    when policy = 'keep_earliest' and call.due_at < waiting.due_at then 'replaced'
    else 'existing'
  end;
  if outcome = 'existing' then
    if taken.pass is null then
      update mainspring.visit v set version = mainspring.token(), changed_at = mainspring.now()
      where v.shard = taken.shard and v.key = taken.key and v.queue = taken.queue;
    end if;
    return;
  end if;
  if policy = 'debounce' and spec ? 'debounce_max' then
    call.due_at := least(call.due_at,
      greatest(waiting.created_at + make_interval(secs => (spec ->> 'debounce_max')::double precision), mainspring.now()));
  end if;
  call.id := waiting.id;
  call.created_at := waiting.created_at;
  if is_behind then
    perform mainspring.wait_behind(taken, call);
    return;
  end if;
  if taken.attempt > 0 then  -- no call shortens a backoff
    call.due_at := greatest(call.due_at, taken.due_at);
  end if;
  update mainspring.visit v
  set payload = call.payload, priority = call.priority, due_at = call.due_at, expires_at = call.expires_at,
    version = mainspring.token(), changed_at = mainspring.now()
  where v.shard = taken.shard and v.key = taken.key and v.queue = taken.queue;
  perform mainspring.wake(call.queue, call.due_at);
end
$$;

-- A call waits behind the run that has its key. What ends that visit, or parks it, puts the call in its place.
create or replace function mainspring.wait_behind(taken mainspring.visit, call mainspring.visit) returns void
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    update mainspring.visit v
    set follow_up = jsonb_build_object('id', call.id, 'priority', call.priority, 'due_at', call.due_at, 'expires_at', call.expires_at,
      'created_at', call.created_at, 'payload', call.payload)
    where v.shard = taken.shard and v.key = taken.key and v.queue = taken.queue
  $$;

-- The call of this key that ended well last, not before that time; null if none did. To plan over all days of history takes longer than to
-- look, so that is done once a session. Rides the keys of history.
create or replace function mainspring.done_since(queue text, key text, since timestamptz) returns uuid
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_generic_plan set enable_seqscan = off
  as $$
begin
  return (
    select h.id from mainspring.history_run h
    where h.key = done_since.key and h.queue = done_since.queue and h.day >= ((done_since.since - interval '7 days') at time zone 'UTC')::date
      and h.outcome = 'done' and h.ended_at >= done_since.since
    order by h.ended_at desc
    limit 1);
end
$$;

-- What is said where a call is rejected, because another has its key.
create or replace function mainspring.refuse_taken(tasks text[], key text, by_call uuid) returns void
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
begin
  raise exception 'the key % is taken by call % of %', quote_literal(key), by_call,
      (select string_agg(distinct quote_literal(t.name), ', ') from unnest(tasks) as t(name)) using
    errcode = 'unique_violation',
    hint = 'enqueue it again when that has ended, or with another policy (unique)';
end
$$;
