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
      where v.key = was_enqueued.key and v.queue = was_enqueued.task and v.id = was_enqueued.id and v.shard <> was_enqueued.shard);
end
$$;

-- Enqueue calls, all or none. At most 10,000, 2 MB each. Null priority: the task's own; null key: none; null id: a new one.
-- Answers, in the order given, the id and the key of each visit and whether it is new (else its key is taken, and the id is that of
-- the call that has it). A call whose id is known already, waiting, running or in history, is not enqueued again and answered as
-- not new: whoever had no answer may send it once more. That holds for as long as history is kept.
-- Inserts in the order of the primary key. History is looked at by a later statement than the insert: a settle that removes a visit
-- writes its history in the same commit, so when the insert has waited for that, history has it. See was_enqueued.
create or replace function mainspring.enqueue_calls(
  tasks text[], arguments text[], due_ats timestamptz[], delays interval[], expires_ats timestamptz[], priorities integer[],
  groups text[], keys text[], ids uuid[]
) returns table (id uuid, key text, is_new boolean)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  as $$
#variable_conflict use_column
declare
  shards integer := (select i.shard_count from mainspring.install i);
  moment timestamptz := mainspring.now();
  wrong record;
  wanted uuid[];
  fresh_tasks text[] := '{}';
  fresh_ids uuid[] := '{}';
  past integer[] := '{}';
  found_past integer[];
  ready jsonb;
  missing integer;
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
      end as fault
    from unnest(tasks, arguments, due_ats, delays, expires_ats, priorities, groups, keys)
      as i(task, arguments, due_at, delay, expires_at, priority, grp, key)
  ) i where i.fault is not null limit 1;
  if found then
    raise exception 'a call of task % cannot be enqueued: %', quote_literal(wrong.task), wrong.fault
      using errcode = 'invalid_parameter_value';
  end if;
  wanted := array(select coalesce(i.id, mainspring.uuid7()) from unnest(tasks, ids) with ordinality as i(task, id, n) order by i.n);
  loop
    with item as (
      select mainspring.shard(coalesce(i.grp, k.key), shards) as shard, k.key, i.task, i.id, i.grp,
        coalesce(i.priority, (q.declared ->> 'priority')::integer, 5) as priority,
        greatest(coalesce(i.due_at, moment + i.delay, moment), moment) as due_at, i.expires_at, i.arguments
      from unnest(tasks, arguments, due_ats, delays, expires_ats, priorities, groups, keys, wanted) with ordinality
        as i(task, arguments, due_at, delay, expires_at, priority, grp, own, id, n)
      join mainspring.queue q on q.name = i.task
      cross join lateral (select case
        when i.own is null then i.id::text
        when i.grp is null and i.own !~ '^[0-9]+:' then i.own
        else octet_length(coalesce(i.grp, '')) || ':' || coalesce(i.grp, '') || ':' || i.own
      end as key) k
      where i.n <> all (past)
      order by 1, 2, 3
    ),
    fresh as (
      insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, expires_at, version, payload, created_at, changed_at)
      select shard, key, task, id, grp, priority, due_at, expires_at, mainspring.token(), arguments::jsonb, moment, moment from item
      on conflict do nothing
      returning queue, id
    )
    select fresh_tasks || array_agg(f.queue), fresh_ids || array_agg(f.id) into fresh_tasks, fresh_ids from fresh f;
    if ids is not null then
      with given as (
        select i.n, i.task, i.id, k.key, mainspring.shard(coalesce(i.grp, k.key), shards) as shard
        from unnest(tasks, groups, keys, ids) with ordinality as i(task, grp, own, id, n)
        cross join lateral (select case
          when i.own is null then i.id::text
          when i.grp is null and i.own !~ '^[0-9]+:' then i.own
          else octet_length(coalesce(i.grp, '')) || ':' || coalesce(i.grp, '') || ':' || i.own
        end as key) k
        where i.id is not null and i.n <> all (past)
          and (i.task, i.id) in (select f.task, f.id from unnest(fresh_tasks, fresh_ids) as f(task, id))
      ),
      known as (
        select g.*
        from given g
        where mainspring.was_enqueued(g.task, g.id, g.key, g.shard)
      ),
      undone as (
        delete from mainspring.visit v using known k
        where v.shard = k.shard and v.key = k.key and v.queue = k.task and v.id = k.id
      )
      select array_agg(k.n::integer) into found_past from known k;
      past := past || coalesce(found_past, '{}');
    end if;
    select jsonb_agg(jsonb_build_array(coalesce(v.id, i.id), k.key, v.id is not null and v.id = i.id
          and (i.task, i.id) in (select f.task, f.id from unnest(fresh_tasks, fresh_ids) as f(task, id))) order by i.n),
      count(*) filter (where v.id is null and i.n <> all (past)) into ready, missing
    from unnest(tasks, groups, keys, wanted) with ordinality as i(task, grp, own, id, n)
    cross join lateral (select case
      when i.own is null then i.id::text
      when i.grp is null and i.own !~ '^[0-9]+:' then i.own
      else octet_length(coalesce(i.grp, '')) || ':' || coalesce(i.grp, '') || ':' || i.own
    end as key) k
    left join mainspring.visit v on i.n <> all (past)
      and v.shard = mainspring.shard(coalesce(i.grp, k.key), shards) and v.key = k.key and v.queue = i.task;
    exit when missing = 0;
    -- The one that had the key was settled between the two statements: insert again; what is there stays as it is.
  end loop;
  perform mainspring.wake(t.task, moment) from (select distinct task from unnest(tasks) as d(task)) t;
  return query select (r.row->>0)::uuid, r.row->>1, (r.row->>2)::boolean
    from jsonb_array_elements(ready) with ordinality as r(row, n) order by r.n;
end
$$;
