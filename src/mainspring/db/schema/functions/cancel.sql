-- Whether a visit is a call of a task: no step of a process, and of no other layer. A queue that nobody has registered is a task's.
-- The kernel calls this (call_off_visits) and knows nothing of what a payload means.
create or replace function mainspring.is_call(queue text, payload jsonb) returns boolean
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select not payload ? '@' and not starts_with(queue, 'mainspring.')
      and coalesce((select q.kind in ('task', 'remote') from mainspring.queue q where q.name = is_call.queue), true)
  $$;

-- The live visit of a call of a task, locked: by its id, by its key within its group, or by both. The key may be that of the visit where
-- the id is given. Who may enqueue a task may ask; another one is told that there is none. Steps of processes are no calls.
-- Of one that waits behind the run of its key it is the row of that run. Waits for whoever has the row. Rides the primary key.
create or replace function mainspring.lock_call(task text, id uuid, key text, grp text) returns mainspring.visit
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  call mainspring.visit;
  grouped constant text := mainspring.visit_key(lock_call.id, lock_call.grp, lock_call.key);
begin
  -- One that nobody has registered yet may have calls, too.
  if exists (select from mainspring.queue q where q.name = task and not mainspring.may_enqueue(q)) then
    perform mainspring.refuse_task(task);
  end if;
  if lock_call.id is null and lock_call.key is null then
    raise exception 'which call of task % is meant: give its id or its key', quote_literal(task) using errcode = 'invalid_parameter_value';
  end if;
  select v.* into call
    from mainspring.visit v
    where v.key = any(array[grouped, case when lock_call.id is not null then lock_call.key end]) and v.queue = task
      and (lock_call.id is null or v.id = lock_call.id or (v.follow_up ->> 'id')::uuid = lock_call.id) and not v.payload ? '@'
    for update of v;
  return call;
end
$$;

-- Call a call of a task off, in the caller's transaction: see lock_call for how it is named. Answers how it stands then: 'cancelled';
-- 'cancelling' where a run is under way, which is told to end when the transaction is committed; 'done' or 'expired' where it had
-- ended before; null where nothing is known of it. Sent again it changes nothing more.
create or replace function mainspring.cancel(
  task text, id uuid default null, key text default null, grp text default null, reason text default 'cancelled'
) returns text
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
declare
  call mainspring.visit := mainspring.lock_call(task, id, key, grp);
  answer text;
begin
  if call.id is null then
    select r.state into answer
      from unnest(array[key, mainspring.visit_key(cancel.id, grp, key)]) k(key)
      cross join lateral mainspring.result_of(task, cancel.id, k.key) r
      limit 1;
    return answer;
  end if;
  if (call.follow_up ->> 'id')::uuid = cancel.id then  -- the run goes on, and nothing comes after it
    perform mainspring.call_off_follower(call, reason);
    return 'cancelled';
  end if;
  select c.answer into answer
    from mainspring.call_off_visits(array[call.shard], array[call.key], array[call.queue], reason, false, false) c;
  return case answer when 'running' then 'cancelling' else answer end;
end
$$;

-- Have a call of a task run now that is for later: scheduled, or in the backoff of a retry. Answers how it stands then: 'waiting' to be
-- started, or what it was already ('running', 'parked', 'done' ...); null where nothing is known of it.
create or replace function mainspring.run_now(task text, id uuid default null, key text default null, grp text default null)
  returns text
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
declare
  call mainspring.visit := mainspring.lock_call(task, id, key, grp);
  answer text;
begin
  if call.id is null then
    select r.state into answer
      from unnest(array[key, mainspring.visit_key(run_now.id, grp, key)]) k(key)
      cross join lateral mainspring.result_of(task, run_now.id, k.key) r
      limit 1;
    return answer;
  end if;
  if (call.follow_up ->> 'id')::uuid = run_now.id then  -- it runs when the run before it has ended
    perform mainspring.make_follower_due(call);
    return 'waiting';
  end if;
  perform mainspring.make_due(array[call.shard], array[call.key], array[call.queue]);
  return case when call.parked_at is not null then 'parked' when call.pass is not null then 'running' else 'waiting' end;
end
$$;
