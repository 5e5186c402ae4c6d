-- Whether the caller may enqueue into this queue by the functions below: a task's, and if only some are let in, he is one of them. The
-- engine's own queues and those of stages, processes and relays are nobody's. In a definer function the caller is not current_user.
create or replace function mainspring.may_enqueue(queue mainspring.queue) returns boolean
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select queue.kind in ('task', 'remote') and not starts_with(queue.name, 'mainspring.') and coalesce((
      select bool_or(pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user)::name, e.role, 'member'))
      from mainspring.entry e where e.queue = (may_enqueue.queue).name), true)
  $$;

-- What is said of a task that is unknown, and of one that the caller may not enqueue: the same.
create or replace function mainspring.refuse_task(task text) returns void
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
declare
  near text;
begin
  -- The one that begins most alike: with at least three letters and half of what was asked for.
  select q.name into near from mainspring.queue q
    cross join lateral (select count(*) as length from generate_series(1, least(length(q.name), length(task))) n
      where left(q.name, n) = left(task, n)) alike
    where q.name <> task and mainspring.may_enqueue(q) and alike.length >= greatest(3, length(task) / 2)
    order by alike.length desc, abs(length(q.name) - length(task)), q.name limit 1;
  raise exception 'unknown task %', quote_literal(task) using
    errcode = 'undefined_object',
    hint = 'tasks are registered by a worker or by "mainspring migrate module:app"'
      || coalesce('; did you mean ' || quote_literal(near) || '?', '');
end
$$;

-- What is said of a task that so many calls of wait already as an operator lets (mark_full.sql).
create or replace function mainspring.refuse_full(task text, most integer) returns void
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
begin
  raise exception 'task % is full: % of its calls may wait', quote_literal(task), most using
    errcode = 'program_limit_exceeded',
    hint = 'enqueue it again when some have run; mainspring queues limit --waiting-max sets how many may wait';
end
$$;

-- Enqueue a task from plain SQL, in the caller's transaction. Answers the id of the call that is there now: with a key that is taken in its
-- group it may be that of another (unique.sql), as the task declares. Without a priority it has the one that the task declares.
-- Runs as the owner of the schema: who may call it needs no right on our tables.
create or replace function mainspring.enqueue(
  task text,
  arguments jsonb default '{}',
  due_at timestamptz default null,
  priority integer default null,
  grp text default null,
  key text default null
) returns uuid
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
declare
  fresh uuid := mainspring.uuid7();
  wanted_at timestamptz := greatest(coalesce(enqueue.due_at, mainspring.now()), mainspring.now());
  count integer;
  placed record;
  declared_unique jsonb;
  wanted_priority integer;
  full_at integer;
begin
  select coalesce(enqueue.priority, (q.declared ->> 'priority')::integer, 5), case when q.is_full then q.waiting_max end,
      q.declared -> 'unique'
    into wanted_priority, full_at, declared_unique
    from mainspring.queue q where q.name = task and mainspring.may_enqueue(q);
  if not found then
    perform mainspring.refuse_task(task);
  end if;
  if full_at is not null then
    perform mainspring.refuse_full(task, full_at);
  end if;
  if jsonb_typeof(arguments) is distinct from 'object' then
    raise exception 'arguments of task % must be a JSON object, got %', quote_literal(task), coalesce(jsonb_typeof(arguments), 'null')
      using errcode = 'invalid_parameter_value', hint = 'name the arguments: {"to": "someone@example.org"}';
  end if;
  if octet_length(arguments::text) > 2 * 1024 * 1024 then
    raise exception 'arguments of task % are % bytes, the limit is 2097152', quote_literal(task), octet_length(arguments::text)
      using errcode = 'invalid_parameter_value', hint = 'store the data elsewhere and pass a reference';
  end if;
  if wanted_at >= timestamptz '9999-01-01 00:00:00+00' then
    raise exception 'due_at of task % must be before the year 9999, got %', quote_literal(task), wanted_at
      using errcode = 'invalid_parameter_value';
  end if;
  if wanted_priority not between 0 and 9 then
    raise exception 'priority of task % must be 0 to 9, got %', quote_literal(task), enqueue.priority using errcode = 'invalid_parameter_value';
  end if;
  if key = '' or octet_length(key) > 1024 then
    raise exception 'key of task % must have 1 to 1024 bytes, got %', quote_literal(task), octet_length(key) using errcode = 'invalid_parameter_value';
  end if;
  if grp = '' or octet_length(grp) > 255 then
    raise exception 'group of task % must have 1 to 255 bytes, got %', quote_literal(task), octet_length(grp) using errcode = 'invalid_parameter_value';
  end if;
  if key is not null or declared_unique ? 'by' then
    select p.* into placed from mainspring.place_calls(array[task], array[arguments::text], array[wanted_at], array[null::interval],
      array[null::timestamptz], array[wanted_priority], array[grp], array[key], null, null) p;
    if placed.outcome = 'rejected' then
      perform mainspring.refuse_taken(array[task], placed.key, placed.id);
    end if;
    return placed.id;
  end if;
  select shard_count into strict count from mainspring.install;
  insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, version, payload, created_at, changed_at)
  values (mainspring.shard(coalesce(enqueue.grp, fresh::text), count), fresh::text, task, fresh, enqueue.grp, wanted_priority, wanted_at,
    mainspring.token(), arguments, mainspring.now(), mainspring.now());
  perform mainspring.wake(task, wanted_at);
  return fresh;
end
$$;

-- The same with a policy of the call's own, and an answer that says what happened: new, after, existing, replaced, debounced, restarted,
-- parked, done or rejected. `by`: arguments whose values make the key. `done_within`, `debounce_max`: seconds.
create or replace function mainspring.enqueue_unique(
  task text,
  arguments jsonb default '{}',
  key text default null,
  policy text default 'again',
  by text[] default null,
  done_within double precision default null,
  on_parked text default 'restart',
  debounce_max double precision default null,
  due_at timestamptz default null,
  priority integer default null,
  grp text default null
) returns table (id uuid, outcome text)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if policy is null or policy not in ('again', 'existing', 'reject', 'replace', 'debounce', 'keep_earliest') then
    raise exception 'policy must be again, existing, reject, replace, debounce or keep_earliest, got %', coalesce(quote_literal(policy), 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  if on_parked is null or on_parked not in ('restart', 'return', 'reject') then
    raise exception 'on_parked must be restart, return or reject, got %', coalesce(quote_literal(on_parked), 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  if not (done_within > 0) or not (debounce_max > 0) then
    raise exception 'done_within and debounce_max must be more than 0 seconds' using errcode = 'invalid_parameter_value';
  end if;
  if key is null and cardinality(by) is null then
    raise exception 'task % is to be unique, and neither by a key nor by arguments', quote_literal(task)
      using errcode = 'invalid_parameter_value', hint = 'give key, or by => array[''name of an argument'']';
  end if;
  return query
    select e.id, e.outcome
    from mainspring.enqueue_each(array[task], array[arguments::text], array[due_at], array[null::interval], array[null::timestamptz],
      array[priority], array[grp], array[key], null, array[jsonb_strip_nulls(jsonb_build_object('policy', policy, 'by', by,
        'done_within', done_within, 'on_parked', on_parked, 'debounce_max', debounce_max))::text]) e;
end
$$;
