-- Enqueue many calls as mainspring.enqueue does one, all or none: for a role that may not insert visits. At most 10,000 a call,
-- 2 MB each. Null priority: the task's own; null key: none. Answers, in the order given, the id and the key of each visit and
-- whether it is new (else its key is taken, and the id is that of the call that has it). Upserts in the order of the primary key.
create or replace function mainspring.enqueue_many(
  tasks text[], arguments text[], due_ats timestamptz[], delays interval[], expires_ats timestamptz[], priorities integer[],
  groups text[], keys text[]
) returns table (id uuid, key text, is_new boolean)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  shards integer := (select i.shard_count from mainspring.install i);
  moment timestamptz := mainspring.now();
  wrong record;
  ids uuid[];
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
  ids := array(select mainspring.uuid7() from generate_series(1, cardinality(tasks)));
  loop
    with item as (
      select mainspring.shard(coalesce(i.grp, k.key), shards) as shard, k.key, i.task, i.id, i.grp,
        coalesce(i.priority, (q.declared ->> 'priority')::integer, 5) as priority,
        greatest(coalesce(i.due_at, moment + i.delay, moment), moment) as due_at, i.expires_at, i.arguments
      from unnest(tasks, arguments, due_ats, delays, expires_ats, priorities, groups, keys, ids)
        as i(task, arguments, due_at, delay, expires_at, priority, grp, own, id)
      join mainspring.queue q on q.name = i.task
      cross join lateral (select case
        when i.own is null then i.id::text
        when i.grp is null and i.own !~ '^[0-9]+:' then i.own
        else octet_length(coalesce(i.grp, '')) || ':' || coalesce(i.grp, '') || ':' || i.own
      end as key) k
      order by 1, 2, 3
    )
    insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, expires_at, version, payload, created_at, changed_at)
    select shard, key, task, id, grp, priority, due_at, expires_at, mainspring.token(), arguments::jsonb, moment, moment from item
    on conflict do nothing;
    select jsonb_agg(jsonb_build_array(v.id, k.key, v.id = i.id) order by i.n), count(*) filter (where v.id is null) into ready, missing
    from unnest(tasks, groups, keys, ids) with ordinality as i(task, grp, own, id, n)
    cross join lateral (select case
      when i.own is null then i.id::text
      when i.grp is null and i.own !~ '^[0-9]+:' then i.own
      else octet_length(coalesce(i.grp, '')) || ':' || coalesce(i.grp, '') || ':' || i.own
    end as key) k
    left join mainspring.visit v on v.shard = mainspring.shard(coalesce(i.grp, k.key), shards) and v.key = k.key and v.queue = i.task;
    exit when missing = 0;
    -- The one that had the key was settled between the two statements: insert again; what is there stays as it is.
  end loop;
  perform mainspring.wake(t.task, moment) from (select distinct task from unnest(tasks) as d(task)) t;
  return query select (r.row->>0)::uuid, r.row->>1, (r.row->>2)::boolean
    from jsonb_array_elements(ready) with ordinality as r(row, n) order by r.n;
end
$$;
