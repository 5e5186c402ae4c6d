CREATE SCHEMA mainspring;

CREATE TYPE mainspring.edge_kind AS ENUM (
    'value',
    'order',
    'outcome',
    'handle'
);

CREATE TYPE mainspring.external_kind AS ENUM (
    'signal',
    'timer',
    'child'
);

CREATE TYPE mainspring.operation_state AS ENUM (
    'running',
    'paused',
    'cancelled',
    'done',
    'failed'
);

CREATE TYPE mainspring.outcome AS ENUM (
    'done',
    'again',
    'retry',
    'parked',
    'cancelled',
    'expired'
);

CREATE TYPE mainspring.process_state AS ENUM (
    'open',
    'finished',
    'cancelled'
);

CREATE TYPE mainspring.promise_outcome AS ENUM (
    'ok',
    'err'
);

CREATE TYPE mainspring.scope_state AS ENUM (
    'open',
    'failed',
    'undoing',
    'closed'
);

CREATE TYPE mainspring.task_state AS ENUM (
    'open',
    'external',
    'parked',
    'done',
    'cancelled',
    'superseded'
);

CREATE TYPE mainspring.visit_state AS ENUM (
    'scheduled',
    'waiting',
    'running',
    'parked'
);

CREATE FUNCTION mainspring.add_to_history() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  insert into mainspring.history_run (day, run, id, queue, key, grp, priority, attempt, outcome, superseded, worker_id, created_at,
    due_at, started_at, ended_at, duration_ms, error_type, error, payload, result, searchable)
  values (new.day, new.run, new.id, new.queue, new.key, new.grp, new.priority, new.attempt, new.outcome,
    coalesce(new.superseded, false), new.worker_id, new.created_at, new.due_at, new.started_at, new.ended_at, new.duration_ms,
    new.error_type, new.error, new.payload, new.result, new.searchable);
  return new;
end $$;

CREATE FUNCTION mainspring.advance(param text, value date, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ begin perform mainspring.refuse_zoneless(param, 'date'); return false; end $$;

CREATE FUNCTION mainspring.advance(param text, value integer, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$select mainspring.advance(param, value::bigint, why)$$;

CREATE FUNCTION mainspring.advance(param text, value bigint, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(a.name, a.answer, a.kind, a.old, a.value, 'integer')
    from mainspring.advance_params(array[param], array['integer'], array[value::text], false, session_user, why) a
  $$;

CREATE FUNCTION mainspring.advance(param text, value numeric, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ begin perform mainspring.refuse_numeric(param, value); return false; end $$;

CREATE FUNCTION mainspring.advance(param text, value text, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(a.name, a.answer, a.kind, a.old, a.value, k.kind)
    from (select coalesce((select p.kind from mainspring.param p where p.name = param), 'version') as kind) k
    cross join lateral mainspring.advance_params(array[param], array[k.kind],
      array[mainspring.parse_value(param, k.kind, value)], false, session_user, why) a
  $$;

CREATE FUNCTION mainspring.advance(param text, value timestamp without time zone, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ begin perform mainspring.refuse_zoneless(param, 'timestamp'); return false; end $$;

CREATE FUNCTION mainspring.advance(param text, value timestamp with time zone, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(a.name, a.answer, a.kind, a.old, a.value, 'instant')
    from mainspring.advance_params(array[param], array['instant'], array[mainspring.finite_micros(param, value)::text], false,
      session_user, why) a
  $$;

CREATE FUNCTION mainspring.advance_params(names text[], kinds text[], given text[], only_greater boolean, changed_by text DEFAULT NULL::text, why text DEFAULT NULL::text) RETURNS TABLE(name text, answer text, kind text, old text, value text, ahead boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  looked jsonb;
  moment timestamptz;
begin
  select jsonb_agg(to_jsonb(c) order by c.name) into looked from (
    select i.name, p.address, p.kind, coalesce(p.num::text, p.ver) as old, i.given as value,
      case
        when p.name is null then 'unknown'
        when i.kind <> p.kind then 'kind'
        when p.kind = 'version' then case when p.ver = i.given then 'same' else 'set' end
        when p.kind = 'instant' and i.given::bigint not between 0 and 221845391999999999 then 'range'
        when p.num is null or i.given::bigint > p.num then 'set'
        when i.given::bigint = p.num then 'same'
        else 'lower'
      end as answer,
      case when p.kind = 'instant' and i.kind = 'instant' then i.given::bigint > mainspring.micros(mainspring.clock() + p.warn_ahead)
        else false end as ahead
    from unnest(names, kinds, given) as i(name, kind, given)
    left join (
      select p.ctid as address, p.name, p.kind, p.num, p.ver, p.warn_ahead
      from unnest(names) as n(name)
      join mainspring.param p on p.name = n.name
      order by p.name
      for no key update of p
    ) p on p.name = i.name
  ) c;
  moment := mainspring.clock();
  if not exists (
    select from jsonb_to_recordset(looked) as c(answer text)
    where c.answer in ('unknown', 'kind', 'range') or (c.answer = 'lower' and not only_greater)
  ) then
    with fresh as (
      select c.name, c.address, c.ahead,
        case when c.kind <> 'version' then c.value::bigint end as num, case when c.kind = 'version' then c.value end as ver,
        case when c.kind <> 'version' then c.old::bigint end as old_num, case when c.kind = 'version' then c.old end as old_ver
      from jsonb_to_recordset(looked)
        as c(name text, address tid, answer text, kind text, old text, value text, ahead boolean)
      where c.answer = 'set'
    ),
    logged as (
      insert into mainspring.param_log (param, num, ver, old_num, old_ver, changed_by, why, at)
      select f.name, f.num, f.ver, f.old_num, f.old_ver, advance_params.changed_by, advance_params.why, moment
      from fresh f
      order by f.name
    )
    update mainspring.param p
    set num = f.num, ver = f.ver, changed_at = moment, changed_by = advance_params.changed_by, why = advance_params.why,
      ahead = f.ahead, revision = p.revision + 1
    from fresh f
    where p.ctid = f.address;
    perform mainspring.offer_changes(array(
      select c.name from jsonb_to_recordset(looked) as c(name text, answer text) where c.answer = 'set'));
  end if;
  return query select c.name, c.answer, c.kind, c.old, c.value, c.ahead
    from jsonb_to_recordset(looked) as c(name text, answer text, kind text, old text, value text, ahead boolean);
end
$$;

CREATE FUNCTION mainspring.body_diff(old_body jsonb, new_body jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select jsonb_object_agg('f:' || key, 1)
    from jsonb_each_text(old_body) o full join jsonb_each_text(new_body) n using (key)
    where o.value is distinct from n.value or (old_body ? key) <> (new_body ? key)
  $$;

CREATE FUNCTION mainspring.bump_document() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if old *<> new then
    new.version := old.version + 1;
    new.changed_at := mainspring.now();
  end if;
  return new;
end
$$;

CREATE FUNCTION mainspring.bundled_queues() RETURNS SETOF text
    LANGUAGE sql STABLE PARALLEL SAFE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
    with recursive found(queue) as (
      select min(p.queue) from mainspring.history_bundle p
      union all
      select (select min(p.queue) from mainspring.history_bundle p where p.queue > f.queue)
      from found f
      where f.queue is not null
    )
    select queue from found where queue is not null;
  $$;

CREATE TABLE mainspring.history_bundle (
    day date NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    priority smallint NOT NULL,
    worker_id uuid NOT NULL,
    kin text NOT NULL COLLATE pg_catalog."C",
    first_key text NOT NULL COLLATE pg_catalog."C",
    last_key text NOT NULL COLLATE pg_catalog."C",
    first_end timestamp with time zone NOT NULL,
    last_end timestamp with time zone NOT NULL,
    size integer NOT NULL,
    took_us bigint NOT NULL,
    runs bigint[] NOT NULL,
    ids uuid[] NOT NULL,
    due_at timestamp with time zone[] NOT NULL,
    created_at timestamp with time zone[] NOT NULL,
    started_us bigint[] NOT NULL,
    took bigint[] NOT NULL,
    payloads jsonb[] NOT NULL
)
PARTITION BY RANGE (day);
ALTER TABLE ONLY mainspring.history_bundle ALTER COLUMN runs SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle ALTER COLUMN ids SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle ALTER COLUMN due_at SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle ALTER COLUMN created_at SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle ALTER COLUMN started_us SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle ALTER COLUMN took SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle ALTER COLUMN payloads SET STORAGE EXTERNAL;

CREATE FUNCTION mainspring.bundles_of(queue text, since timestamp with time zone, until timestamp with time zone, most bigint) RETURNS SETOF mainspring.history_bundle
    LANGUAGE sql STABLE PARALLEL SAFE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
    select p.*
    from mainspring.history_bundle p
    where p.queue = bundles_of.queue and p.first_end <= bundles_of.until and p.last_end <= 'infinity'
      and p.last_end >= greatest(bundles_of.since, (
        select b.first_end
        from (
          select w.first_end, sum(w.size) over (order by w.first_end desc rows unbounded preceding) as runs
          from mainspring.history_bundle w
          where w.queue = bundles_of.queue and w.first_end < bundles_of.until and w.last_end < bundles_of.until
            and w.first_end >= bundles_of.since and bundles_of.most is not null
        ) b
        where b.runs >= bundles_of.most
        order by b.first_end desc
        limit 1));
  $$;

CREATE FUNCTION mainspring.bundles_with(key text) RETURNS SETOF mainspring.history_bundle
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$
    select p.*
    from mainspring.history_bundle p
    where p.kin = left(bundles_with.key, 8) and p.last_key >= bundles_with.key and p.first_key <= bundles_with.key
      and case when bundles_with.key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then bundles_with.key::uuid end = any(p.ids);
  $_$;

CREATE FUNCTION mainspring.now() RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$select pg_catalog.now()$$;

CREATE TABLE mainspring.visit (
    shard integer NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    id uuid NOT NULL,
    grp text COLLATE pg_catalog."C",
    priority smallint DEFAULT 5 NOT NULL,
    due_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    version bigint NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    crashes integer DEFAULT 0 NOT NULL,
    work_timeouts integer DEFAULT 0 NOT NULL,
    pass bigint,
    holder uuid,
    started_at timestamp with time zone,
    held_until timestamp with time zone,
    expires_at timestamp with time zone,
    parked_at timestamp with time zone,
    offered_while_parked boolean DEFAULT false NOT NULL,
    error text,
    payload jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    changed_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    follow_up jsonb,
    called_off text,
    error_type text COLLATE pg_catalog."C",
    fingerprint text COLLATE pg_catalog."C"
)
WITH (fillfactor='90', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0.2');

CREATE FUNCTION mainspring.call_off_follower(visit mainspring.visit, reason text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  perform mainspring.close_call(mainspring.follower_of(visit), 'cancelled', reason);
  update mainspring.visit v set follow_up = null where v.shard = visit.shard and v.key = visit.key and v.queue = visit.queue;
end
$$;

CREATE FUNCTION mainspring.call_off_visits(shards integer[], keys text[], queues text[], reason text, waits boolean, spares_held boolean) RETURNS TABLE(queue text, key text, id uuid, answer text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  free_shards integer[];
  free_keys text[];
  free_queues text[];
  told bigint[];
begin
  if call_off_visits.waits then
    perform from unnest(call_off_visits.shards, call_off_visits.keys, call_off_visits.queues) as i(shard, key, queue)
      join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
      order by v.shard, v.key, v.queue
      for update of v;
  end if;
  select array_agg(w.shard) filter (where w.pass is null), array_agg(w.key) filter (where w.pass is null),
      array_agg(w.queue) filter (where w.pass is null),
      array_agg(w.version) filter (where w.parked_at is null and w.due_at <= mainspring.now())
    into free_shards, free_keys, free_queues, told
    from (
      select v.shard, v.key, v.queue, v.pass, v.version, v.parked_at, v.due_at
      from unnest(call_off_visits.shards, call_off_visits.keys, call_off_visits.queues) as i(shard, key, queue)
      join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
      where v.pass is null or (not call_off_visits.spares_held and mainspring.is_call(v.queue, v.payload))
      order by v.shard, v.key, v.queue
      for update of v skip locked
    ) w;
  return query
  with asked as (
    update mainspring.visit v
    set called_off = coalesce(v.called_off, call_off_visits.reason, 'cancelled'), expires_at = '1970-01-01Z', changed_at = mainspring.now()
    from unnest(call_off_visits.shards, call_off_visits.keys, call_off_visits.queues) as i(shard, key, queue)
    where v.shard = i.shard and v.key = i.key and v.queue = i.queue and v.pass is not null and v.version = any(told)
    returning v.queue, v.key, v.id
  )
  select a.queue::text, a.key::text, a.id, 'running' from asked a
  union all
  select c.queue, c.key, c.id, 'cancelled'
  from mainspring.cancel_visits(free_shards, free_keys, free_queues, call_off_visits.reason, false) c;
  perform pg_notify('mainspring', 'stop ' || string_agg(t.version::text, ' '))
    from unnest(told) with ordinality as t(version, n) group by (t.n - 1) / 300;
end
$$;

CREATE FUNCTION mainspring.cancel(task text, id uuid DEFAULT NULL::uuid, key text DEFAULT NULL::text, grp text DEFAULT NULL::text, reason text DEFAULT 'cancelled'::text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION mainspring.cancel_visits(shards integer[], keys text[], queues text[], reason text, parked_only boolean) RETURNS TABLE(queue text, key text, id uuid)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
begin
  return query
  with wanted as materialized (
    select v.shard, v.key, v.queue
    from unnest(cancel_visits.shards, cancel_visits.keys, cancel_visits.queues) as i(shard, key, queue)
    join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
    where v.pass is null and (v.parked_at is not null or not cancel_visits.parked_only)
    order by v.shard, v.key, v.queue
    for update of v skip locked
  ),
  gone as (
    delete from mainspring.visit v
    using wanted w
    where v.shard = w.shard and v.key = w.key and v.queue = w.queue
    returning v.id, v.queue, v.key, v.grp, v.priority,
      case when v.parked_at is null then least(v.attempt, 2147483646) + 1 else greatest(1, v.attempt) end as attempt, v.created_at, v.due_at, v.error, v.payload, v.called_off
  ),
  story as (
    insert into mainspring.history_run (day, run, id, queue, key, grp, priority, attempt, outcome, worker_id, created_at, due_at,
      started_at, ended_at, duration_ms, error, payload, searchable)
    select (mainspring.now() at time zone 'UTC')::date, mainspring.token(), g.id, g.queue, g.key, g.grp, g.priority, g.attempt,
      'cancelled', '00000000-0000-0000-0000-000000000000', g.created_at, g.due_at, mainspring.now(), mainspring.now(), 0,
      coalesce(g.called_off, cancel_visits.reason), g.payload,
      (select array_agg(left(f || '=' || (g.payload ->> f), 500)) from unnest(q.searchable) f where g.payload ? f)
    from gone g
    left join mainspring.queue q on q.name = g.queue
  )
  select g.queue::text, g.key::text, g.id
  from gone g;
end
$$;

CREATE FUNCTION mainspring.canonical_keys(kind text, ids text[]) RETURNS TABLE(n bigint, key text)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO, YMD'
    SET "IntervalStyle" TO 'postgres'
    SET bytea_output TO 'hex'
    SET extra_float_digits TO '1'
    AS $_$
declare
  types text[];
  names text[];
  relation regclass;
begin
  select k.types, k.names, to_regclass(nullif(nullif(k.source, 'document'), 'dao'))
    into types, names, relation from mainspring.key_of(canonical_keys.kind) k;
  if not found then
    raise exception 'unknown kind %', quote_literal(kind) using
      errcode = 'undefined_object', hint = 'kinds are registered by a worker or by "mainspring migrate module:app"';
  end if;
  if relation is not null and not mainspring.prints_equals_alike(relation, names, types) then
    begin
      return query execute format(
        'select i.n, coalesce((select %s from %s t where %s limit 1), %s) from unnest($1) with ordinality as i(id, n)',
        mainspring.key_expression(relation, names, 't'), relation,
        (select string_agg(format('t.%I = %s', k.name, mainspring.key_part(k.n, k.type, cardinality(types))), ' and ')
          from unnest(names, types) with ordinality as k(name, type, n)),
        (select case when cardinality(types) = 1 then string_agg(p.part || '::text', '')
            else 'jsonb_build_array(' || string_agg(p.part || '::text', ', ' order by p.n) || ')::text' end
          from (select k.n, mainspring.key_part(k.n, k.type, cardinality(types)) as part
            from unnest(types) with ordinality as k(type, n)) p)) using ids;
      return;
    exception
      when insufficient_privilege then null;  -- who may not read the table gets what the type says
    end;
  end if;
  if cardinality(types) = 0 then
    return query select i.n, i.id from unnest(ids) with ordinality as i(id, n);
  elsif cardinality(types) = 1 then
    return query execute format(
      'select i.n, i.id::%s::text from unnest($1) with ordinality as i(id, n)', types[1]) using ids;
  else
    return query execute format(
      'select i.n, jsonb_build_array(%s)::text from unnest($1) with ordinality as i(id, n)',
      (select string_agg(format('(i.id::jsonb->>%s)::%s::text', t.n - 1, t.type), ', ' order by t.n)
        from unnest(types) with ordinality as t(type, n))) using ids;
  end if;
end
$_$;

CREATE FUNCTION mainspring.capture() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO, YMD'
    SET "IntervalStyle" TO 'postgres'
    SET bytea_output TO 'hex'
    SET extra_float_digits TO '1'
    SET jit TO 'off'
    AS $_$
declare
  kind constant text := tg_argv[0];
  keys constant text[] := tg_argv[1];
  version_column constant text := tg_argv[2];
  left_out constant text[] := tg_argv[3];
  old_row jsonb;
  new_row jsonb;
  one boolean;
  own boolean;
begin
  if mainspring.is_own_save(kind) then
    return null;
  end if;
  -- Whether it is registered, and has types that are not built in: generate_capture looks for these very lines.
  select exists (select from pg_attribute a
      where a.attrelid = tg_relid and a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384) into own
  from mainspring.captured c where c.kind = tg_argv[0] and c.relid = coalesce(pg_partition_root(tg_relid), tg_relid);
  if own is null then
    one := mainspring.warn_of_trigger(tg_relid, tg_name, kind);
    return null;
  end if;
  begin
    if own then
      execute format('select %s, %s from (values (1)) one'
        || case when tg_op <> 'INSERT' then ', (select %3$s from old_rows o) o' else '' end
        || case when tg_op <> 'DELETE' then ', (select %4$s from new_rows n) n' else '' end
        || ' limit 2',  -- of many rows two will do to tell: execute would fetch every pair
        case when tg_op <> 'INSERT' then 'to_jsonb(o.*)' else 'null' end,
        case when tg_op <> 'DELETE' then 'to_jsonb(n.*)' else 'null' end,
        mainspring.row_expression(tg_relid, 'o'), mainspring.row_expression(tg_relid, 'n')) into strict old_row, new_row;
    elsif tg_op = 'UPDATE' then
      select to_jsonb(o.*), to_jsonb(n.*) into strict old_row, new_row from old_rows o, new_rows n;
    elsif tg_op = 'INSERT' then
      select to_jsonb(n.*) into strict new_row from new_rows n;
    else
      select to_jsonb(o.*) into strict old_row from old_rows o;
    end if;
    one := tg_argv[4] = 'plain' and coalesce(old_row ?& keys, true) and coalesce(new_row ?& keys, true);
  exception
    when no_data_found then return null;
    when others then one := false;  -- many rows, or one that JSON cannot hold
  end;
  if one then
    -- Assigned, not performed: an expression is evaluated without a query around it.
    one := mainspring.capture_one(
      kind,
      case when cardinality(keys) = 1 then old_row->>keys[1] else mainspring.json_key(old_row, keys) end,
      case when cardinality(keys) = 1 then new_row->>keys[1] else mainspring.json_key(new_row, keys) end,
      old_row, new_row, version_column, left_out, tg_argv[5] = 'notify');
  else
    declare
      old_key constant text := mainspring.key_expression(tg_relid, keys, 'o');
      new_key constant text := mainspring.key_expression(tg_relid, keys, 'n');
      versioned constant boolean := exists (select from pg_attribute a  -- a number: nothing to be escaped
        where a.attrelid = tg_relid and a.attname = version_column and a.attnum > 0 and a.atttypid in (20, 21, 23));
      start constant text := case when versioned
        then format('''{"out":1'' || coalesce('',"v":'' || n.%I, '''')', version_column) else '''{"out":1''' end;
      lane constant boolean := coalesce(current_setting('mainspring.lane', true), '') = 'crawl';
      source text;
      count bigint;
      chunk record;
    begin
      if new_key is null then
        raise warning 'mainspring: table % has no column % any more; this change of kind % is not seen',
          tg_relid::regclass, keys, quote_literal(kind) using hint = 'declare the new key and run mainspring migrate module:app';
        return null;
      end if;
      source := case tg_op
        when 'INSERT' then format('select %s as key, (%s || '',"new":1}'')::jsonb as payload from new_rows n', new_key, start)
        when 'UPDATE' then format(
          'select key, (start || case when is_new then '',"new":1'' else diff end || ''}'')::jsonb as payload from ('
          'select %1$s as key, %2$s as start, %3$s is null as is_new, %4$s as diff'
          ' from new_rows n left join old_rows o on %1$s = %3$s where %3$s is null or o.* *<> n.*) s where is_new or diff <> ''''',
          new_key, start, old_key, mainspring.diff_expression(tg_relid, left_out))
      end;
      if source is not null then
        execute mainspring.offering(source)
          using case when lane then kind || '~' else kind end, case when lane then 2 else 5 end;
        get diagnostics count = row_count;
        if count > 0 and tg_argv[5] = 'notify' then
          perform mainspring.wake(case when lane then kind || '~' else kind end, mainspring.now());
        end if;
      end if;
      -- A key that changed is an entity that went and another that came.
      if tg_op <> 'INSERT' then
        for chunk in execute format(
          'select array_agg(key) as keys, array_agg(body) as bodies from ('
          'select key, body, row_number() over (order by mainspring.shard(key, (select shard_count from mainspring.install)), key) as n'
          ' from (select %1$s as key, case when $1 then mainspring.row_json(b.*) end as body from old_rows o,'
          ' lateral (select %3$s) b %2$s) s) s'
          ' group by n / 10000 order by n / 10000',
          old_key, case when tg_op = 'UPDATE'
            then format('where not exists (select from new_rows n where %s = %s)', new_key, old_key) else '' end,
          mainspring.row_expression(tg_relid, 'o'))
          using exists (select from mainspring.consumer c where c.kind = tg_argv[0] and c.retired_at is null)
        loop
          perform mainspring.end_entities(kind, chunk.keys, chunk.bodies);
        end loop;
      end if;
    end;
  end if;
  return null;
end
$_$;

CREATE FUNCTION mainspring.capture_clear() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  kind constant text := tg_argv[0];
  told constant boolean := exists (select from mainspring.consumer c where c.kind = tg_argv[0] and c.retired_at is null);
  whole constant boolean := pg_partition_root(tg_relid) is null;
  asked constant text := 'mainspring.clear_' || md5(kind);  -- the triggers of two kinds may fire in turns
  given constant text := 'mainspring.cleared_' || md5(kind);
  wanted text := '';
  printed text;
  chunk record;
begin
  if not exists (select from mainspring.captured c
    where c.kind = tg_argv[0] and c.relid = coalesce(pg_partition_root(tg_relid), tg_relid)) then
    perform mainspring.warn_of_trigger(tg_relid, tg_name, kind);
    return null;
  end if;
  if tg_nargs > 6 and tg_argv[6] = 'ask' then
    if told or not whole then
      wanted := format('select jsonb_agg(jsonb_build_array(%s, %s))::text from only %s o, lateral (select %s) b',
        mainspring.key_expression(tg_relid, tg_argv[1]::text[], 'o'),
        case when told then 'to_jsonb(b.*)' else 'null' end, tg_relid::regclass, mainspring.row_expression(tg_relid, 'o'));
    end if;
    perform set_config(asked, coalesce(wanted, ''), true), set_config(given, '', true);
    return null;
  end if;
  printed := nullif(current_setting(given, true), '');
  perform set_config(asked, '', true), set_config(given, '', true);
  if printed is not null then
    for chunk in
      select array_agg(s.key) as keys, array_agg(s.body) as bodies
      from (
        select p.row->>0 as key, nullif(p.row->1, 'null') as body,
          row_number() over (order by mainspring.shard(p.row->>0, (select shard_count from mainspring.install)), p.row->>0) as n
        from jsonb_array_elements(printed::jsonb) as p(row)
      ) s
      group by s.n / 10000 order by s.n / 10000
    loop
      perform mainspring.end_entities(kind, chunk.keys, chunk.bodies);
    end loop;
  elsif whole then
    delete from mainspring.state s where s.kind = tg_argv[0];
    perform mainspring.clear_queues(array[kind, kind || '~'], array[kind || '/']);
    if told then
      raise warning 'mainspring: table % cannot be read by %, so the consumers of kind % get no deleted events',
        tg_relid::regclass, coalesce(nullif(current_setting('role'), 'none'), session_user), quote_literal(kind);
    end if;
  else
    raise warning 'mainspring: partition % cannot be read by %; states of its entities of kind % stay',
      tg_relid::regclass, coalesce(nullif(current_setting('role'), 'none'), session_user), quote_literal(kind)
      using hint = 'delete its rows instead, or truncate as a role that may select them';
  end if;
  return null;
end
$$;

CREATE FUNCTION mainspring.capture_document() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_nestloop TO 'off'
    SET jit TO 'off'
    AS $$
declare
  lane constant boolean := coalesce(current_setting('mainspring.lane', true), '') = 'crawl';
  item record;
begin
  if tg_relid <> 'mainspring.document'::regclass then
    perform mainspring.warn_of_trigger(tg_relid, tg_name, 'document');
    return null;
  end if;
  if tg_op = 'INSERT' then
    for item in
      select n.kind, array_agg(n.key) as keys, array_agg(jsonb_build_object('new', 1, 'out', 1, 'v', n.version)) as payloads
      from new_rows n group by n.kind order by n.kind
    loop
      perform mainspring.offer_documents(item.kind, item.keys, item.payloads, lane);
    end loop;
  elsif tg_op = 'UPDATE' then
    -- The engine updates documents of one kind in a statement; what it never does, a user's dao may do in its save.
    if mainspring.is_own_save((select n.kind from new_rows n limit 1)) then
      return null;
    end if;
    for item in
      select c.kind, array_agg(c.key) as keys, array_agg(c.payload || jsonb_build_object('out', 1, 'v', c.version)) as payloads
      from (
        select n.kind, n.key, n.version,
          case when o.key is null then '{"new": 1}' else mainspring.body_diff(o.body, n.body) end as payload
        from new_rows n left join old_rows o on o.kind = n.kind and o.key = n.key
      ) c where c.payload is not null group by c.kind order by c.kind
    loop
      perform mainspring.offer_documents(item.kind, item.keys, item.payloads, lane);
    end loop;
    for item in
      select o.kind, array_agg(o.key) as keys, array_agg(o.body) as bodies, array_agg(o.version) as versions from old_rows o
      where not exists (select from new_rows n where n.kind = o.kind and n.key = o.key) group by o.kind order by o.kind
    loop
      perform mainspring.end_entities(item.kind, item.keys, item.bodies, item.versions);
    end loop;
  else
    for item in
      select o.kind, array_agg(o.key) as keys, array_agg(o.body) as bodies, array_agg(o.version) as versions from old_rows o
      group by o.kind order by o.kind
    loop
      perform mainspring.end_entities(item.kind, item.keys, item.bodies, item.versions);
    end loop;
  end if;
  return null;
end
$$;

CREATE FUNCTION mainspring.capture_left() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if tg_relid <> 'mainspring.leaving'::regclass then
    perform mainspring.warn_of_trigger(tg_relid, tg_name, 'leaving');
    return null;
  end if;
  delete from mainspring.leaving l where l.id = new.id;
  if found then
    perform mainspring.end_entities(new.kind, array[new.key], array[new.body]);
  end if;
  return null;
end
$$;

CREATE FUNCTION mainspring.capture_one(kind text, old_key text, new_key text, old_row jsonb, new_row jsonb, version_column text, left_out text[], notify boolean) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
declare
  lane constant boolean := coalesce(current_setting('mainspring.lane', true), '') = 'crawl';
  payload jsonb;
  ended integer;
begin
  if old_key is not null and old_key is distinct from new_key then
    ended := mainspring.end_entities(kind, array[old_key], array[old_row]);
  end if;
  if new_key is null then
    return false;
  end if;
  if old_key is distinct from new_key or old_row is null or new_row is null then
    payload := '{"new": 1}';
  else
    select jsonb_object_agg('f:' || x.key, 1) into payload from jsonb_each_text(new_row) x
      where x.key <> all (left_out) and x.value is distinct from old_row->>x.key;
    if payload is null then
      return false;
    end if;
  end if;
  payload := payload || case when jsonb_typeof(new_row->version_column) = 'number'
    then jsonb_build_object('out', 1, 'v', new_row->version_column) else '{"out": 1}' end;
  return mainspring.offer_visit(
    case when lane then kind || '~' else kind end, new_key, payload, case when lane then 2 else 5 end, notify);
end
$$;

CREATE FUNCTION mainspring.capture_row() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO, YMD'
    SET "IntervalStyle" TO 'postgres'
    SET bytea_output TO 'hex'
    SET extra_float_digits TO '1'
    AS $_$
declare
  kind constant text := tg_argv[0];
  keys constant text[] := tg_argv[1];
  expression text;
  old_key text;
  new_key text;
  old_row jsonb;
  new_row jsonb;
begin
  if mainspring.is_own_save(kind) then
    return null;
  end if;
  if not exists (select from mainspring.captured c
    where c.kind = tg_argv[0] and c.relid = coalesce(pg_partition_root(tg_relid), tg_relid)) then
    perform mainspring.warn_of_trigger(tg_relid, tg_name, kind);
    return null;
  end if;
  if tg_op = 'UPDATE' and old *= new then
    return null;
  end if;
  expression := mainspring.key_expression(tg_relid, keys, 'r');
  if expression is null then
    raise warning 'mainspring: table % has no column % any more; this change of kind % is not seen',
      tg_relid::regclass, keys, quote_literal(kind) using hint = 'declare the new key and run mainspring migrate module:app';
    return null;
  end if;
  expression := case when exists (select from pg_attribute a
      where a.attrelid = tg_relid and a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384)
    then format('select %s, mainspring.row_json(b.*) from (select ($1).*) r, lateral (select %s) b',
      expression, mainspring.row_expression(tg_relid, 'r'))
    else format('select %s, mainspring.row_json(r.*) from (select ($1).*) r', expression) end;
  if tg_op <> 'INSERT' then
    execute expression into old_key, old_row using old;
  end if;
  if tg_op <> 'DELETE' then
    execute expression into new_key, new_row using new;
  end if;
  -- A row that moves to another partition is deleted here and inserted there: its state must not end. The table itself is not
  -- looked into, its owner's code would run: what has not come again when the transaction ends is deleted.
  if tg_op = 'DELETE' and old_key is not null and pg_partition_root(tg_relid) is not null then
    insert into mainspring.leaving (kind, key, xact, body) values (tg_argv[0], old_key, pg_current_xact_id(), old_row);
    return null;
  elsif tg_op = 'INSERT' and pg_partition_root(tg_relid) is not null then
    delete from mainspring.leaving l where l.kind = tg_argv[0] and l.key = new_key and l.xact = pg_current_xact_id();
  end if;
  perform mainspring.capture_one(
    kind, old_key, new_key, old_row, new_row, tg_argv[2], tg_argv[3]::text[], tg_argv[5] = 'notify');
  return null;
end
$_$;

CREATE FUNCTION mainspring.changed(kind text, ids text[], fields text[] DEFAULT NULL::text[]) RETURNS integer
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.offer_changed(changed.kind,
      (select array_agg(distinct c.key) from mainspring.canonical_keys(changed.kind, ids) c), fields)
  $$;

CREATE FUNCTION mainspring.check_answer(name text, answer text, kind text, old text, value text, wanted text) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
declare
  near text;
begin
  case answer
    when 'set' then return true;
    when 'unknown' then
      select p.name into near from mainspring.param p
        cross join lateral (select count(*) as length from generate_series(1, least(length(p.name), length(check_answer.name))) n
          where left(p.name, n) = left(check_answer.name, n)) alike
        where alike.length >= greatest(3, length(check_answer.name) / 2)
        order by alike.length desc, abs(length(p.name) - length(check_answer.name)), p.name limit 1;
      raise exception 'unknown param %', quote_literal(name) using errcode = 'undefined_object',
        hint = 'params are registered by a worker or by "mainspring params create"'
          || coalesce('; did you mean ' || quote_literal(near) || '?', '');
    when 'kind' then
      raise exception 'param % is of kind %, got a value of kind %', quote_literal(name), kind, wanted
        using errcode = 'invalid_parameter_value', hint = 'set it by a value of its own kind';
    when 'range' then
      raise exception 'param % must be an instant from 1970 to 9000, got %', quote_literal(name), value || ' microseconds'
        using errcode = 'datetime_field_overflow', hint = 'is it in the right unit?';
    when 'lower' then
      raise exception 'param % would go back from % to %', quote_literal(name),
        case kind when 'instant' then mainspring.shown(kind, old::bigint, null) else old end,
        case kind when 'instant' then mainspring.shown(kind, value::bigint, null) else value end
        using errcode = 'invalid_parameter_value',
        hint = 'moving back is said explicitly: select mainspring.rewind(name, value, why => ...)';
    when 'higher' then
      raise exception 'param % would not go back: it is %', quote_literal(name),
        case kind when 'instant' then mainspring.shown(kind, old::bigint, null) else old end
        using errcode = 'invalid_parameter_value', hint = 'moving forward is mainspring.advance(name, value)';
    when 'empty' then
      raise exception 'param % has no value yet to move back from', quote_literal(name)
        using errcode = 'invalid_parameter_value', hint = 'set it by mainspring.advance(name, value)';
    else return false;
  end case;
end
$$;

CREATE FUNCTION mainspring.check_entity(kind text, id text) RETURNS TABLE(queue text, stage text, lane text, due_at timestamp with time zone, state text, attempt integer, error text, key text)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  entity_key text := (select c.key from mainspring.canonical_keys(check_entity.kind, array[check_entity.id]) c);
begin
  return query
  select v.queue::text, t.stage, t.lane, v.due_at, t.state, v.attempt, v.error, v.key::text
  from mainspring.visit v
  cross join lateral (
    select
      case when v.queue like '%/%' then rtrim(split_part(v.queue, '/', 2), '~')
        when v.queue like '%!%' then split_part(v.queue, '!', 2) end as stage,
      case when v.queue like '%!%' then 'relay' when v.queue like '%~' then 'crawl' else 'live' end as lane,
      case when v.parked_at is not null then 'parked' when v.pass is not null then 'running'
        when v.due_at > mainspring.now() then 'scheduled' else 'waiting' end as state
  ) t
  where v.shard = mainspring.shard(entity_key, (select shard_count from mainspring.install))
    and v.key = entity_key
    and (v.queue in (check_entity.kind, check_entity.kind || '~') or starts_with(v.queue, check_entity.kind || '/')
      or starts_with(v.queue, check_entity.kind || '!'))
  order by v.due_at, v.queue;
end
$$;

CREATE FUNCTION mainspring.clear_documents() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  item record;
begin
  if tg_relid <> 'mainspring.document'::regclass then
    perform mainspring.warn_of_trigger(tg_relid, tg_name, 'document');
    return null;
  end if;
  for item in
    select d.kind, array_agg(d.key) as keys, array_agg(d.body) as bodies, array_agg(d.version) as versions
    from mainspring.document d group by d.kind order by d.kind
  loop
    perform mainspring.end_entities(item.kind, item.keys, item.bodies, item.versions);
  end loop;
  return null;
end
$$;

CREATE FUNCTION mainspring.clear_queues(queues text[], prefixes text[] DEFAULT '{}'::text[]) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  count bigint;
begin
  delete from mainspring.visit v
  where v.queue = any (queues) or exists (select from unnest(prefixes) as p(prefix) where starts_with(v.queue, p.prefix));
  get diagnostics count = row_count;
  return count;
end
$$;

CREATE FUNCTION mainspring.clock() RETURNS timestamp with time zone
    LANGUAGE sql PARALLEL SAFE
    AS $$select pg_catalog.clock_timestamp()$$;

CREATE FUNCTION mainspring.close_call(call mainspring.visit, outcome mainspring.outcome, reason text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    insert into mainspring.history_run (day, run, id, queue, key, grp, priority, attempt, outcome, worker_id, created_at, due_at,
      started_at, ended_at, duration_ms, error, payload, searchable)
    select (mainspring.now() at time zone 'UTC')::date, mainspring.token(), call.id, call.queue, call.key, call.grp, call.priority,
      case when call.parked_at is null then least(call.attempt, 2147483646) + 1 else greatest(1, call.attempt) end,
      close_call.outcome, '00000000-0000-0000-0000-000000000000', call.created_at, call.due_at, mainspring.now(), mainspring.now(), 0,
      reason, call.payload,
      (select array_agg(left(f || '=' || (call.payload ->> f), 500))
        from mainspring.queue q, unnest(q.searchable) f where q.name = call.queue and call.payload ? f)
  $$;

CREATE FUNCTION mainspring.crawl_page(kind text, after text, most integer) RETURNS TABLE(key text)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO, YMD'
    SET "IntervalStyle" TO 'postgres'
    SET bytea_output TO 'hex'
    SET extra_float_digits TO '1'
    SET enable_seqscan TO 'off'
    AS $_$
declare
  found_kind mainspring.kind;
  source regclass;
  columns text;
  printed text;
  position text;
begin
  select * into found_kind from mainspring.kind k where k.name = crawl_page.kind;
  if not found then
    raise exception 'unknown kind %', quote_literal(kind) using
      errcode = 'undefined_object', hint = 'kinds are registered by a worker or by "mainspring migrate module:app"';
  end if;
  if found_kind.source = 'dao' then
    raise exception 'kind % has a dao: its keys are not known here', quote_literal(kind) using errcode = 'feature_not_supported';
  end if;
  if found_kind.source = 'document' then
    return query
      select d.key from mainspring.document d
      where d.kind = crawl_page.kind and (after is null or d.key > after) order by d.key limit most;
    return;
  end if;
  source := to_regclass(found_kind.source);
  if source is null then
    raise exception 'the table % of kind % is gone', found_kind.source, quote_literal(kind) using errcode = 'undefined_table';
  end if;
  select string_agg(format('t.%I', k.name), ', ' order by k.n),
    mainspring.key_expression(source, found_kind.keys, 't'),
    case when cardinality(found_kind.keys) = 1 then '$1::' || min(k.type)
      else string_agg(format('($1::jsonb->>%s)::%s', k.n - 1, k.type), ', ' order by k.n) end
  into columns, printed, position
  from unnest(found_kind.keys, found_kind.key_types) with ordinality as k(name, type, n);
  return query execute format(
    'select %1$s from %2$s t where octet_length(%1$s) between 1 and 1300 %3$s order by %4$s limit $2', printed, source,
    case when after is null then '' else format('and (%s) > (%s)', columns, position) end, columns)
    using after, most;
end
$_$;

CREATE FUNCTION mainspring.crawl_soon(kind text, stages text[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  queue_name text := (
    select 'mainspring.crawl' || case when k.pool = 'default' then '' else '@' || k.pool end
    from mainspring.kind k where k.name = crawl_soon.kind);
begin
  if cardinality(stages) = 0 or not exists (select from mainspring.kind k where k.name = crawl_soon.kind
    and case k.source when 'dao' then true
      when 'document' then exists (select from mainspring.document d where d.kind = k.name)
      else pg_relation_size(to_regclass(k.source)) > 0  -- of a partitioned table none: its leaves have it
        or exists (select from pg_partition_tree(to_regclass(k.source)) t where t.isleaf and pg_relation_size(t.relid) > 0) end) then
    return false;
  end if;
  perform mainspring.offer_visit_at(queue_name, crawl_soon.kind || '/new',
    (select jsonb_object_agg('ask:' || s, 1) from unnest(stages) s), 5, mainspring.now() + interval '3 seconds');
  return true;
end
$$;

CREATE FUNCTION mainspring.delete_visit(kind text, id text, stage text DEFAULT NULL::text, crawl boolean DEFAULT false, force boolean DEFAULT false) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  queue_name text := mainspring.stage_queue(delete_visit.kind, delete_visit.stage, delete_visit.crawl);
  entity_key text := (select c.key from mainspring.canonical_keys(delete_visit.kind, array[delete_visit.id]) c);
begin
  if stage is null and not force then
    raise exception 'the system visit of % % may carry a change that no stage has seen; say force => true to drop it all the same',
      kind, id using errcode = 'invalid_parameter_value';
  end if;
  return mainspring.drop_visit(queue_name, entity_key);
end
$$;

CREATE FUNCTION mainspring.deleted(kind text, ids text[]) RETURNS integer
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select coalesce((
      select mainspring.end_entities(deleted.kind, array_agg(distinct c.key))
      from mainspring.canonical_keys(deleted.kind, ids) c having count(*) > 0), 0)
  $$;

CREATE FUNCTION mainspring.diff_expression(relation oid, left_out text[]) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    select coalesce(string_agg('concat(' || piece || ')', ' || '), '''''')
    from (
      select string_agg(format(
        case when t.typname in ('int2', 'int4', 'int8', 'bool', 'uuid', 'date', 'timestamp', 'timestamptz')
            and t.typnamespace = 'pg_catalog'::regnamespace
            or t.typname in ('text', 'varchar') and t.typnamespace = 'pg_catalog'::regnamespace and l.collisdeterministic
          then 'case when o.%1$I is distinct from n.%1$I then %2$L end'
          else 'case when row(o.%1$I)::record *<> row(n.%1$I)::record then %2$L end' end,
        a.attname, ',' || to_json('f:' || a.attname) || ':1'), ', ') as piece
      from pg_attribute a
      join pg_type t on t.oid = a.atttypid
      left join pg_collation l on l.oid = a.attcollation
      where a.attrelid = relation and a.attnum > 0 and not a.attisdropped and a.attname <> all (left_out)
      group by a.attnum / 50
    ) pieces
  $_$;

CREATE FUNCTION mainspring.done_since(queue text, key text, since timestamp with time zone) RETURNS uuid
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
begin
  return (
    select h.id from mainspring.history_run h
    where h.key = done_since.key and h.queue = done_since.queue and h.day >= ((done_since.since - interval '7 days') at time zone 'UTC')::date
      and h.outcome = 'done' and h.ended_at >= done_since.since
    order by h.ended_at desc
    limit 1);
end
$$;

CREATE FUNCTION mainspring.drop_day(name text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
  ended regclass := (
    select c.oid from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent in ('mainspring.history_run'::regclass, 'mainspring.history_bundle'::regclass, 'mainspring.event_kept'::regclass)
      and c.relnamespace = 'mainspring'::regnamespace and c.relname = drop_day.name
      and c.relname ~ '^(history|history_bundle|event_kept)_\d{4}_\d\d_\d\d$'
      and to_date(right(c.relname, 10), 'YYYY_MM_DD') < (mainspring.now() at time zone 'UTC')::date);
begin
  if ended is null then
    raise exception 'history has no day % that has ended', quote_literal(name) using errcode = 'invalid_parameter_value';
  end if;
  perform from mainspring.install for update skip locked;
  if not found then
    return false;
  end if;
  execute format('drop table mainspring.%I', drop_day.name);
  return true;
end
$_$;

CREATE FUNCTION mainspring.drop_visit(queue text, key text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  delete from mainspring.visit v
  where v.shard = mainspring.shard(drop_visit.key, (select i.shard_count from mainspring.install i))
    and v.key = drop_visit.key and v.queue = drop_visit.queue;
  return found;
end
$$;

CREATE FUNCTION mainspring.end_called_off(shards integer[], keys text[], queues text[]) RETURNS TABLE(queue text, key text, id uuid)
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select c.*
    from (
      select array_agg(v.shard) as shards, array_agg(v.key::text) as keys, array_agg(v.queue::text) as queues
      from unnest(end_called_off.shards, end_called_off.keys, end_called_off.queues) as i(shard, key, queue)
      join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
      where v.called_off is not null and v.pass is null
    ) w
    cross join lateral mainspring.cancel_visits(w.shards, w.keys, w.queues, 'cancelled', false) c
  $$;

CREATE FUNCTION mainspring.end_entities(kind text, keys text[], bodies jsonb[] DEFAULT NULL::jsonb[], versions bigint[] DEFAULT NULL::bigint[]) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
declare
  shards integer := (select shard_count from mainspring.install);
  consumers text[];
  consumer text;
  version_column text;
  had text[];
begin
  with gone as (
    select s.shard, s.key, s.stage
    from (select mainspring.shard(i.key, shards) as shard, i.key from unnest(keys) as i(key)) i
    join mainspring.state s on s.shard = i.shard and s.kind = end_entities.kind and s.key = i.key
    order by s.shard, s.key, s.stage for update of s
  ),
  ended as (
    delete from mainspring.state s using gone g
    where s.shard = g.shard and s.kind = end_entities.kind and s.key = g.key and s.stage = g.stage
    returning s.key
  )
  select array_agg(key) into had from ended;
  -- First the system's visits: a system run that has its own locked may be adding visits of stages.
  had := had || mainspring.end_visits(keys, array[kind, kind || '~'], kind || '/');
  select array_agg(c.name order by c.name) into consumers
    from mainspring.consumer c where c.kind = end_entities.kind and c.retired_at is null;
  if consumers is not null then
    select k.version_column into version_column from mainspring.kind k where k.name = end_entities.kind;
    with item as (
      select distinct on (1, 2) mainspring.shard(i.key, shards) as shard, i.key, i.body, i.version
      from unnest(keys, bodies, versions) as i(key, body, version)
      where octet_length(i.key) between 1 and 1300
      order by 1, 2
    ),
    told as (
      insert into mainspring.event (shard, kind, key, what, entity_version, body)
      select item.shard, end_entities.kind, item.key, 'deleted',
        coalesce(item.version, case when versions is null and jsonb_typeof(item.body->version_column) = 'number'
          then (item.body->>version_column)::numeric::bigint end),
        jsonb_build_object('entity', item.body)
      from item
      returning shard, key, number, entity_version, body
    ),
    kept as (
      insert into mainspring.event_kept (shard, kind, key, number, what, entity_version, body)
      select t.shard, end_entities.kind, t.key, t.number, 'deleted', t.entity_version, t.body
      from told t join mainspring.kind k on k.name = end_entities.kind and k.declared ->> 'keep_events' is not null
    )
    insert into mainspring.delivery (shard, kind, key, consumer, number)
    select t.shard, end_entities.kind, t.key, c.name, t.number from told t, unnest(consumers) as c(name);
    foreach consumer in array consumers loop
      perform mainspring.offer_visits(kind || '!' || consumer, keys, array_fill('{}'::jsonb, array[cardinality(keys)]));
      perform mainspring.wake(kind || '!' || consumer, mainspring.now());
    end loop;
  end if;
  return (select count(distinct key) from unnest(had) as h(key));
end
$$;

CREATE FUNCTION mainspring.end_visits(keys text[], queues text[], prefix text) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
declare
  shards constant integer := (select i.shard_count from mainspring.install i);
  gone_first text[];
  gone_then text[];
begin
  with gone as (
    select v.shard, v.key, v.queue
    from (select mainspring.shard(i.key, shards) as shard, i.key from unnest(keys) as i(key)) i
    join mainspring.visit v on v.shard = i.shard and v.key = i.key
    where v.queue = any (queues)
    order by v.shard, v.key, v.queue for update of v
  ),
  ended as (
    delete from mainspring.visit v using gone g where v.shard = g.shard and v.key = g.key and v.queue = g.queue
    returning v.key
  )
  select array_agg(e.key) into gone_first from ended e;
  with gone as (
    select v.shard, v.key, v.queue
    from (select mainspring.shard(i.key, shards) as shard, i.key from unnest(keys) as i(key)) i
    join mainspring.visit v on v.shard = i.shard and v.key = i.key
    where starts_with(v.queue, prefix)
    order by v.shard, v.key, v.queue for update of v
  ),
  ended as (
    delete from mainspring.visit v using gone g where v.shard = g.shard and v.key = g.key and v.queue = g.queue
    returning v.key
  )
  select array_agg(e.key) into gone_then from ended e;
  return gone_first || gone_then;
end
$$;

CREATE FUNCTION mainspring.enqueue(task text, arguments jsonb DEFAULT '{}'::jsonb, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, priority integer DEFAULT NULL::integer, grp text DEFAULT NULL::text, key text DEFAULT NULL::text) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION mainspring.enqueue_calls(tasks text[], arguments text[], due_ats timestamp with time zone[], delays interval[], expires_ats timestamp with time zone[], priorities integer[], groups text[], keys text[], ids uuid[]) RETURNS TABLE(id uuid, key text, is_new boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION mainspring.enqueue_each(tasks text[], arguments text[], due_ats timestamp with time zone[], delays interval[], expires_ats timestamp with time zone[], priorities integer[], groups text[], keys text[], ids uuid[], uniques text[]) RETURNS TABLE(id uuid, key text, outcome text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
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

CREATE FUNCTION mainspring.enqueue_many(tasks text[], arguments text[], due_ats timestamp with time zone[], delays interval[], expires_ats timestamp with time zone[], priorities integer[], groups text[], keys text[]) RETURNS TABLE(id uuid, key text, is_new boolean)
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select e.id, e.key, e.is_new
    from mainspring.enqueue_calls(tasks, arguments, due_ats, delays, expires_ats, priorities, groups, keys, null) e
  $$;

CREATE FUNCTION mainspring.enqueue_unique(task text, arguments jsonb DEFAULT '{}'::jsonb, key text DEFAULT NULL::text, policy text DEFAULT 'again'::text, by text[] DEFAULT NULL::text[], done_within double precision DEFAULT NULL::double precision, on_parked text DEFAULT 'restart'::text, debounce_max double precision DEFAULT NULL::double precision, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, priority integer DEFAULT NULL::integer, grp text DEFAULT NULL::text) RETURNS TABLE(id uuid, outcome text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION mainspring.entity(kind text, key text) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
  found_kind mainspring.kind;
  source regclass;
  wanted text;
  answer jsonb;
begin
  select * into found_kind from mainspring.kind k where k.name = entity.kind;
  if found_kind.source is null or found_kind.source = 'dao' then
    return null;
  end if;
  if found_kind.source = 'document' then
    return (select d.body from mainspring.document d where d.kind = entity.kind and d.key = entity.key);
  end if;
  source := to_regclass(found_kind.source);
  if source is null then
    return null;
  end if;
  select string_agg(
    case when cardinality(found_kind.keys) = 1 then format('t.%I = $1::%s', k.name, k.type)
      else format('t.%I = ($1::jsonb->>%s)::%s', k.name, k.n - 1, k.type) end, ' and ')
  into wanted
  from unnest(found_kind.keys, found_kind.key_types) with ordinality as k(name, type, n);
  execute format('select to_jsonb(t.*) from %s t where %s', source, wanted) into answer using key;
  return answer;
end
$_$;

CREATE FUNCTION mainspring.finite_micros(param text, value timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE
    AS $$
begin
  if value is null then
    raise exception 'param % was given null', quote_literal(param)
      using errcode = 'null_value_not_allowed', hint = 'a param that has a value keeps one';
  end if;
  if not isfinite(value) or value < '1970-01-01Z' or value >= '9000-01-01Z' then
    raise exception 'param % must be an instant from 1970 to 9000, got %', quote_literal(param), value
      using errcode = 'datetime_field_overflow', hint = 'a value that cannot be would stop every check that reads it';
  end if;
  return mainspring.micros(value);
end
$$;

CREATE FUNCTION mainspring.first_day_of(id uuid) RETURNS date
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select case when substr(id::text, 15, 1) = '7' and made.at < mainspring.now() + interval '1 minute'
      then (made.at at time zone 'UTC')::date - 1 else '-infinity' end
    from (select to_timestamp(('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 1000.0) as at) made
  $$;

CREATE FUNCTION mainspring.follow_end() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION mainspring.follow_park() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  perform mainspring.close_call(new, 'cancelled', mainspring.gave_way(new, (new.follow_up ->> 'id')::uuid));
  perform mainspring.take_place(new, mainspring.follower_of(new));
  return null;
end
$$;

CREATE FUNCTION mainspring.follower_of(visit mainspring.visit) RETURNS mainspring.visit
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION mainspring.gave_way(parked mainspring.visit, to_call uuid) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select 'parked, then gave way to call ' || to_call || ' under its key' || coalesce(': ' || parked.error, '')
  $$;

CREATE FUNCTION mainspring.generate_capture(relation regclass, kind text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  body text := (select p.prosrc from pg_proc p where p.oid = 'mainspring.capture()'::regprocedure);
  old_rows constant text := format('(select %s from old_rows o) o', mainspring.row_expression(relation, 'o'));
  new_rows constant text := format('(select %s from new_rows n) n', mainspring.row_expression(relation, 'n'));
  changes constant text[][] := array[
    ['exists (select from pg_attribute a
      where a.attrelid = tg_relid and a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384)',
      format('%L is distinct from (select string_agg(concat(a.attname, '':'', a.atttypid), '','' order by a.attnum)
      from pg_attribute a where a.attrelid = tg_relid and a.attnum > 0 and not a.attisdropped)',
      (select string_agg(concat(a.attname, ':', a.atttypid), ',' order by a.attnum)
        from pg_attribute a where a.attrelid = relation and a.attnum > 0 and not a.attisdropped))],
    ['old_row, new_row from old_rows o, new_rows n;', format('old_row, new_row from %s, %s;', old_rows, new_rows)],
    ['into strict new_row from new_rows n;', format('into strict new_row from %s;', new_rows)],
    ['into strict old_row from old_rows o;', format('into strict old_row from %s;', old_rows)]];
begin
  for n in 1..array_length(changes, 1) loop
    if strpos(body, changes[n][1]) = 0 then
      raise exception 'capture() has no line "%" any more', changes[n][1];
    end if;
    body := replace(body, changes[n][1], changes[n][2]);
  end loop;
  execute format('create or replace function mainspring.%I() returns trigger language plpgsql security definer'
    ' set search_path = pg_catalog, pg_temp set timezone = ''UTC'' set datestyle = ''ISO, YMD'' set intervalstyle = ''postgres'''
    ' set bytea_output = ''hex'' set extra_float_digits = 1 set jit = off as %L', 'capture_of_' || kind, body);
  execute format('revoke execute on function mainspring.%I() from public', 'capture_of_' || kind);
end
$$;

CREATE FUNCTION mainspring.history_violations(day date) RETURNS TABLE(rule text, detail text)
    LANGUAGE sql STABLE
    AS $$
    select 'a run is in history twice', h.run::text
    from (
      select r.run from mainspring.history_run r where history_violations.day is null or r.day = history_violations.day
      union all
      select unnest(p.runs) from mainspring.history_bundle p where history_violations.day is null or p.day = history_violations.day
    ) h
    group by h.run
    having count(*) > 1
  $$;

CREATE FUNCTION mainspring.instant(micros bigint) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (('1970-01-01 00:00:00+00'::timestamp with time zone + make_interval(secs => ((micros / 1000000))::double precision)) + (((micros % (1000000)::bigint))::double precision * '00:00:00.000001'::interval));

CREATE FUNCTION mainspring.is_call(queue text, payload jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select not payload ? '@' and not starts_with(queue, 'mainspring.')
      and coalesce((select q.kind in ('task', 'remote') from mainspring.queue q where q.name = is_call.queue), true)
  $$;

CREATE FUNCTION mainspring.is_own_save(kind text) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    select pg_trigger_depth() = 1 and current_setting('mainspring.engine', true) = 'on'
      and coalesce(nullif(current_setting('mainspring.saves', true), ''), kind) = kind
      and has_table_privilege(
        coalesce(nullif(current_setting('role'), 'none'), session_user)::name, 'mainspring.lease', 'update')
  $$;

CREATE FUNCTION mainspring.json_key(entity jsonb, keys text[]) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select case when entity is null then null when cardinality(keys) = 1 then entity->>keys[1] else (
      select jsonb_agg(entity->>k.name order by k.n)::text from unnest(keys) with ordinality as k(name, n)) end
  $$;

CREATE FUNCTION mainspring.key_by_arguments(arguments jsonb, spec jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select 'by ' || encode(sha256(convert_to(
      jsonb_object_agg(f.name, coalesce(arguments -> f.name, spec -> 'defaults' -> f.name))::text, 'UTF8')), 'hex')
    from jsonb_array_elements_text(spec -> 'by') as f(name)
    having count(*) > 0
  $$;

CREATE FUNCTION mainspring.key_expression(relation oid, keys text[], alias text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select case
      when count(a.attnum) < cardinality(keys) then null
      when cardinality(keys) = 1 then min(c.text)
      else format('jsonb_build_array(%s)::text', string_agg(c.text, ', ' order by k.n))
    end
    from unnest(keys) with ordinality as k(name, n)
    left join pg_attribute a on a.attrelid = relation and a.attname = k.name and a.attnum > 0 and not a.attisdropped
    cross join lateral (select case when a.atttypid < 16384 then format('%I.%I::text', alias, k.name)
      else mainspring.own_column(alias, k.name, a.atttypid, true) end as text) c
  $$;

CREATE FUNCTION mainspring.key_of(kind text) RETURNS TABLE(types text[], names text[], source text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select k.key_types, k.keys, k.source from mainspring.kind k where k.name = key_of.kind
  $$;

CREATE FUNCTION mainspring.key_part(n bigint, type text, parts integer) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select case when parts = 1 then format('i.id::%s', type) else format('(i.id::jsonb->>%s)::%s', n - 1, type) end
  $$;

CREATE FUNCTION mainspring.lock_call(task text, id uuid, key text, grp text) RETURNS mainspring.visit
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION mainspring.make_day(parent text, day date) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET default_tablespace TO ''
    AS $$
begin
  if parent not in ('history_run', 'history_bundle', 'event_kept') then
    raise exception 'days are made of history_run, history_bundle and event_kept, got %', quote_literal(parent)
      using errcode = 'invalid_parameter_value';
  end if;
  if day not between (mainspring.now() at time zone 'UTC')::date - 1 and (mainspring.now() at time zone 'UTC')::date + 31 then
    raise exception 'a day of history is made from yesterday to a month ahead, got %', day using errcode = 'invalid_parameter_value';
  end if;
  perform from mainspring.install for update skip locked;
  if not found then
    return false;
  end if;
  execute format('create table if not exists mainspring.%I partition of mainspring.%I for values from (%L) to (%L)',
    case parent when 'history_run' then 'history_' else parent || '_' end || to_char(day, 'YYYY_MM_DD'), parent, day, day + 1);
  return true;
end
$$;

CREATE FUNCTION mainspring.make_due(shards integer[], keys text[], queues text[]) RETURNS TABLE(queue text, key text, id uuid, hints bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
begin
  return query
  with wanted as materialized (
    select v.shard, v.key, v.queue
    from unnest(make_due.shards, make_due.keys, make_due.queues) as i(shard, key, queue)
    join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
    where v.pass is null and v.parked_at is null and v.due_at > mainspring.now()
    order by v.shard, v.key, v.queue
    for update of v skip locked
  ),
  due as (
    update mainspring.visit v
    set due_at = mainspring.now(), changed_at = mainspring.now()
    from wanted w
    where v.shard = w.shard and v.key = w.key and v.queue = w.queue
    returning v.queue, v.key, v.id
  ),
  hint as materialized (
    select mainspring.wake(queue, mainspring.now()) from (select distinct queue from due) d
  )
  select d.queue::text, d.key::text, d.id, (select count(*) from hint) from due d;
end
$$;

CREATE FUNCTION mainspring.make_follower_due(visit mainspring.visit) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    update mainspring.visit v set follow_up = v.follow_up || jsonb_build_object('due_at', mainspring.now())
    where v.shard = visit.shard and v.key = visit.key and v.queue = visit.queue
  $$;

CREATE TABLE mainspring.queue (
    name text NOT NULL COLLATE pg_catalog."C",
    pool text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    kind text DEFAULT 'task'::text NOT NULL,
    turns text COLLATE pg_catalog."C",
    hold_after interval DEFAULT '00:00:01'::interval NOT NULL,
    work_timeout interval,
    crash_limit integer DEFAULT 3 NOT NULL,
    concurrency integer,
    rate double precision,
    group_concurrency integer,
    group_rate double precision,
    searchable text[] DEFAULT '{}'::text[] NOT NULL,
    declared jsonb DEFAULT '{}'::jsonb NOT NULL,
    paused_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    policy jsonb DEFAULT '{}'::jsonb NOT NULL,
    waiting_max integer,
    is_full boolean DEFAULT false NOT NULL,
    paused_until timestamp with time zone,
    pause_reason text,
    breaker_failures integer,
    breaker_pause double precision,
    breaker_within double precision,
    burst integer,
    group_burst integer,
    rate_rested_at timestamp with time zone DEFAULT now(),
    CONSTRAINT queue_breaker_failures_check CHECK ((breaker_failures >= 1)),
    CONSTRAINT queue_breaker_pause_check CHECK ((breaker_pause > (0)::double precision)),
    CONSTRAINT queue_breaker_within_check CHECK ((breaker_within > (0)::double precision)),
    CONSTRAINT queue_burst_check CHECK ((burst >= 1)),
    CONSTRAINT queue_concurrency_check CHECK ((concurrency >= 0)),
    CONSTRAINT queue_group_burst_check CHECK ((group_burst >= 1)),
    CONSTRAINT queue_group_concurrency_check CHECK ((group_concurrency >= 0)),
    CONSTRAINT queue_group_rate_check CHECK ((group_rate >= (0)::double precision)),
    CONSTRAINT queue_name_check CHECK (((name <> ''::text) AND (octet_length(name) <= 200))),
    CONSTRAINT queue_rate_check CHECK ((rate >= (0)::double precision)),
    CONSTRAINT queue_waiting_max_check CHECK ((waiting_max >= 1))
);

CREATE FUNCTION mainspring.may_enqueue(queue mainspring.queue) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select queue.kind in ('task', 'remote') and not starts_with(queue.name, 'mainspring.') and coalesce((
      select bool_or(pg_has_role(coalesce(nullif(current_setting('role'), 'none'), session_user)::name, e.role, 'member'))
      from mainspring.entry e where e.queue = (may_enqueue.queue).name), true)
  $$;

CREATE FUNCTION mainspring.meet_call(call mainspring.visit, spec jsonb, OUT told uuid, OUT outcome text) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION mainspring.micros(at timestamp with time zone) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((EXTRACT(epoch FROM (at AT TIME ZONE 'UTC'::text)) * (1000000)::numeric))::bigint;

CREATE FUNCTION mainspring.move_visits(formers text[], queues text[]) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  count integer;
begin
  with moved as (
    delete from mainspring.visit v where v.queue = any (formers) returning v.*
  )
  insert into mainspring.visit as v (shard, key, queue, id, grp, priority, due_at, expires_at, version, attempt, crashes, parked_at,
    offered_while_parked, error, payload, created_at, changed_at)
  select m.shard, m.key, queues[array_position(formers, m.queue::text)], m.id, m.grp, m.priority, m.due_at, m.expires_at,
    uuid_hash_extended(gen_random_uuid(), 0), m.attempt, m.crashes, m.parked_at, m.offered_while_parked, m.error, m.payload,
    m.created_at, mainspring.now()
  from moved m
  order by m.shard, m.key, m.queue
  on conflict on constraint visit_pkey do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    priority = greatest(v.priority, excluded.priority),
    payload = v.payload || excluded.payload,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at;
  get diagnostics count = row_count;
  return count;
end
$$;

CREATE FUNCTION mainspring.offer(kind text, id text, stage text DEFAULT NULL::text, at timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.offer_entity(offer.kind,
      (select c.key from mainspring.canonical_keys(offer.kind, array[offer.id]) c), offer.stage, offer.at)
  $$;

CREATE FUNCTION mainspring.offer_batch(shards integer[], keys text[], queues text[], ids uuid[], priorities integer[], due_ats timestamp with time zone[], payloads jsonb[], token bigint) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  offered integer;
  item record;
begin
  offered := 0;
  for item in
    with offered as (
      insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
      select i.shard, i.key, i.queue, i.id, i.priority, i.due_at, offer_batch.token + row_number() over (), i.payload,
        mainspring.now(), mainspring.now()
      from (
        select u.* from unnest(shards, keys, queues, ids, priorities, due_ats, payloads)
          as u(shard, key, queue, id, priority, due_at, payload)
        order by u.shard, u.key collate "C", u.queue collate "C"
      ) i
      on conflict on constraint visit_pkey do update
      set version = excluded.version,
        due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
        priority = greatest(v.priority, excluded.priority),
        payload = v.payload || excluded.payload,
        offered_while_parked = v.offered_while_parked or v.parked_at is not null,
        changed_at = excluded.changed_at
      returning v.queue, v.due_at
    )
    select o.queue, min(o.due_at) as due_at, count(*)::integer as n from offered o group by o.queue
  loop
    perform mainspring.wake(item.queue, item.due_at);
    offered := offered + item.n;
  end loop;
  return offered;
end
$$;

CREATE FUNCTION mainspring.offer_changed(kind text, keys text[], fields text[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  payload jsonb := '{"out": 1}';
  count integer;
begin
  if keys is null then
    return 0;
  end if;
  if not exists (select from mainspring.kind k where k.name = offer_changed.kind) then
    raise exception 'unknown kind %', quote_literal(kind) using errcode = 'undefined_object';
  end if;
  if exists (select from unnest(keys) k where k is null or octet_length(k) not between 1 and 1300) then
    raise exception 'an id of kind % is null, empty or longer than 1300 bytes', quote_literal(kind)
      using errcode = 'invalid_parameter_value';
  end if;
  if fields is null then
    payload := payload || '{"new": 1}';
  else
    payload := payload || coalesce((select jsonb_object_agg('f:' || f, 1) from unnest(fields) f where f is not null), '{}');
  end if;
  count := mainspring.offer_visits(kind, keys, array_fill(payload, array[cardinality(keys)]));
  if (select k.notify from mainspring.kind k where k.name = offer_changed.kind) then
    perform mainspring.wake(kind, mainspring.now());
  end if;
  return count;
end
$$;

CREATE FUNCTION mainspring.offer_changes(names text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
  perform mainspring.offer_once('mainspring.change', names, 9);
end
$$;

CREATE FUNCTION mainspring.offer_documents(kind text, keys text[], payloads jsonb[], lane boolean) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  queue constant text := case when lane then kind || '~' else kind end;
begin
  if mainspring.offer_visits(queue, keys, payloads, case when lane then 2 else 5 end) > 0
    and coalesce((select k.notify from mainspring.kind k where k.name = offer_documents.kind), true)
  then
    perform mainspring.wake(queue, mainspring.now());
  end if;
end
$$;

CREATE FUNCTION mainspring.offer_entity(kind text, key text, stage text, at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  queue_name text := mainspring.stage_queue(offer_entity.kind, offer_entity.stage);
  wanted timestamptz := greatest(coalesce(offer_entity.at, mainspring.now()), mainspring.now());
  news jsonb := case when offer_entity.stage is null then '{"new": 1, "out": 1}'::jsonb else '{}' end;
begin
  if offer_entity.key is null or octet_length(offer_entity.key) not between 1 and 1300 then
    raise exception 'an id of kind % must have 1 to 1300 bytes', quote_literal(kind) using errcode = 'invalid_parameter_value';
  end if;
  if not isfinite(wanted) or wanted > mainspring.now() + interval '3660 days' then
    raise exception 'the time of a visit must be at most 3660 days from now, got %', at using errcode = 'invalid_parameter_value';
  end if;
  return mainspring.offer_visit_at(queue_name, offer_entity.key, news, 5, wanted);
end
$$;

CREATE FUNCTION mainspring.offer_once(queue text, keys text[], priority integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  earliest timestamptz;
  base constant bigint := mainspring.token() >> 1;
begin
  with offered as (
    insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
    select i.shard, i.key, offer_once.queue, md5(i.key || base)::uuid, offer_once.priority, mainspring.now(),
      base + row_number() over (), '{}', mainspring.now(), mainspring.now()
    from (
      select mainspring.shard(n.key, s.shard_count) as shard, n.key
      from unnest(keys) as n(key), mainspring.install s
      order by 1, 2
    ) i
    on conflict on constraint visit_pkey do update
    set version = excluded.version,
      due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
      priority = greatest(v.priority, excluded.priority),
      payload = v.payload || excluded.payload,
      offered_while_parked = v.offered_while_parked or v.parked_at is not null,
      changed_at = excluded.changed_at
    where v.xmin <> pg_current_xact_id()::xid
    returning v.due_at
  )
  select min(o.due_at) into earliest from offered o;
  if earliest is not null then
    perform mainspring.wake(queue, earliest);
  end if;
end
$$;

CREATE FUNCTION mainspring.offer_operation(id bigint, queue text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if queue <> 'mainspring.operation' and not starts_with(queue, 'mainspring.operation@')
    or not exists (select from mainspring.operation o where o.id = offer_operation.id) then
    raise exception 'there is no operation % in queue %', id, quote_literal(queue) using errcode = 'undefined_object';
  end if;
  perform mainspring.offer_visits(queue, array[id::text], array['{}'::jsonb]);
  perform mainspring.wake(queue, mainspring.now());
end
$$;

CREATE FUNCTION mainspring.offer_visit(queue text, key text, payload jsonb, priority integer, notify boolean) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
declare
  fresh constant uuid := gen_random_uuid();
  due timestamptz;
begin
  if key is null or octet_length(key) not between 1 and 1300 then
    raise warning 'mainspring: 1 of 1 keys cannot be a visit''s key in queue %: they are null, empty or longer than 1300 bytes',
      quote_literal(queue);
    return false;
  end if;
  insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
  values (mainspring.shard(offer_visit.key, (select i.shard_count from mainspring.install i)), offer_visit.key, offer_visit.queue,
    fresh, offer_visit.priority, mainspring.now(), uuid_hash_extended(fresh, 0), offer_visit.payload, mainspring.now(), mainspring.now())
  on conflict on constraint visit_pkey do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    priority = greatest(v.priority, excluded.priority),
    payload = v.payload || excluded.payload,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at
  returning v.due_at into due;
  if notify and (due = mainspring.now() or due < mainspring.now() - interval '1 second') then
    perform mainspring.wake(queue, due);
  end if;
  return true;
end
$$;

CREATE FUNCTION mainspring.offer_visit_at(queue text, key text, payload jsonb, priority integer, due_at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  fresh constant uuid := gen_random_uuid();
  at_shard constant integer := mainspring.shard(offer_visit_at.key, (select i.shard_count from mainspring.install i));
  before timestamptz;
  after timestamptz;
begin
  select v.due_at into before from mainspring.visit v
  where v.shard = at_shard and v.key = offer_visit_at.key and v.queue = offer_visit_at.queue
  for update;
  insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
  values (at_shard, offer_visit_at.key, offer_visit_at.queue, fresh, offer_visit_at.priority, offer_visit_at.due_at,
    uuid_hash_extended(fresh, 0), offer_visit_at.payload, mainspring.now(), mainspring.now())
  on conflict on constraint visit_pkey do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    priority = greatest(v.priority, excluded.priority),
    payload = v.payload || excluded.payload,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at
  returning v.due_at into after;
  perform mainspring.wake(queue, after);
  return before is null or after < before;
end
$$;

CREATE FUNCTION mainspring.offer_visits(queue text, keys text[], payloads jsonb[], priority integer DEFAULT 5) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  unfit integer;
  count integer;
begin
  insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
  select distinct on (1, 2) mainspring.shard(i.key, s.shard_count), i.key, offer_visits.queue, i.id, offer_visits.priority,
    mainspring.now(), uuid_hash_extended(i.id, 0), i.payload, mainspring.now(), mainspring.now()
  from (select u.key, u.payload, gen_random_uuid() as id from unnest(keys, payloads) as u(key, payload)) i, mainspring.install s
  where octet_length(i.key) between 1 and 1300
  order by 1, 2
  on conflict on constraint visit_pkey do update
  set version = excluded.version,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
    priority = greatest(v.priority, excluded.priority),
    payload = v.payload || excluded.payload,
    offered_while_parked = v.offered_while_parked or v.parked_at is not null,
    changed_at = excluded.changed_at;
  get diagnostics count = row_count;
  select count(*) into unfit from unnest(keys) as i(key) where i.key is null or octet_length(i.key) not between 1 and 1300;
  if unfit > 0 then
    raise warning 'mainspring: % of % keys cannot be a visit''s key in queue %: they are null, empty or longer than 1300 bytes',
      unfit, cardinality(keys), quote_literal(queue);
  end if;
  return count;
end
$$;

CREATE FUNCTION mainspring.offering(query text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    select format($$
      insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
      select distinct on (2, 1) ('x' || left(encode(sha256(convert_to(c.key, 'UTF8')), 'hex'), 8))::bit(32)::bigint %% i.shard_count,
        c.key collate "C", $1, c.id, $2, i.now, uuid_hash_extended(c.id, 0), c.payload, i.now, i.now
      from (select s.*, gen_random_uuid() as id from (%s) s) c,
        (select shard_count, mainspring.now() as now from mainspring.install) i
      where octet_length(c.key) between 1 and 1300
      order by 2, 1
      on conflict on constraint visit_pkey do update
      set version = excluded.version,
        due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
        priority = greatest(v.priority, excluded.priority),
        payload = v.payload || excluded.payload,
        offered_while_parked = v.offered_while_parked or v.parked_at is not null,
        changed_at = excluded.changed_at
      $$, query)
  $_$;

CREATE FUNCTION mainspring.open_pool() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  perform from mainspring.worker where pool = old.pool and code is not null limit 1 for key share skip locked;
  if found then
    return null;
  end if;
  perform from mainspring.lease
  where pool = old.pool and worker_id = '00000000-0000-0000-0000-000000000000'
  order by shard
  for update;
  if not found or exists (select from mainspring.worker where pool = old.pool and code is not null) then
    return null;
  end if;
  update mainspring.lease l
  set worker_id = null, epoch = mainspring.token(), offered_to = null,
    suspect_of = (
      select coalesce(b.worker_id, b.suspect_of)
      from mainspring.lease b
      where b.pool > old.pool and b.pool < old.pool || ' ' and b.shard = l.shard
      order by b.worker_id is null, b.suspect_of is null
      limit 1)
  where pool = old.pool and worker_id = '00000000-0000-0000-0000-000000000000';
  delete from mainspring.lease where pool > old.pool and pool < old.pool || ' ';
  return null;
end $$;

CREATE FUNCTION mainspring.own_column(alias text, name text, type oid, as_text boolean) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
    with recursive base(oid, typtype, typbasetype, typname) as (
      select t.oid, t.typtype, t.typbasetype, t.typname from pg_type t where t.oid = type
      union all
      select t.oid, t.typtype, t.typbasetype, t.typname from base b join pg_type t on t.oid = b.typbasetype where b.typtype = 'd'
    )
    select case when b.oid >= 16384 then format('case when num_nulls(%1$I.%2$I) = 0 then concat(%1$I.%2$I) end', alias, name)
      else format('%I.%I', alias, name) || case when b.oid <> type then format('::pg_catalog.%I', b.typname) else '' end
        || case when as_text then '::text' else '' end end
    from base b where b.typtype <> 'd'
  $_$;

CREATE FUNCTION mainspring.parse_value(param text, kind text, value text) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $_$
begin
  if value is null then
    raise exception 'param % was given null', quote_literal(param)
      using errcode = 'null_value_not_allowed', hint = 'a param that has a value keeps one';
  end if;
  case kind
    when 'version' then return value;
    when 'integer' then return value::bigint::text;
    else
      if value !~ '(Z|z|[+-][0-9]{2}(:?[0-9]{2})?)\s*$' or value !~ '[0-9]:[0-9]' then
        raise exception 'param % was given the instant %, which has no offset', quote_literal(param), quote_literal(value)
          using errcode = 'invalid_parameter_value', hint = 'write 2026-03-10T01:00:00Z or ...+03:00';
      end if;
      return mainspring.finite_micros(param, value::timestamptz)::text;
  end case;
end
$_$;

CREATE FUNCTION mainspring.peek(kind text, stage text DEFAULT NULL::text, most integer DEFAULT 100, crawl boolean DEFAULT false) RETURNS TABLE(key text, due_at timestamp with time zone, priority smallint, attempt integer)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  queue_name text := mainspring.stage_queue(peek.kind, peek.stage, peek.crawl);
begin
  return query
  select f.key, f.due_at, f.priority, f.attempt
  from generate_series(9, 0, -1) as p(priority)
  cross join lateral (
    select v.key::text, v.due_at, v.priority, v.attempt
    from mainspring.visit v
    where v.queue = queue_name and v.priority = p.priority and v.pass is null and v.parked_at is null
    order by v.due_at, v.key
    limit greatest(least(most, 10000), 0)) f
  order by f.due_at > mainspring.now(), case when f.due_at <= mainspring.now() then -f.priority end, f.due_at, f.key
  limit greatest(least(most, 10000), 0);
end
$$;

CREATE FUNCTION mainspring.place_all(tasks text[], arguments text[], due_ats timestamp with time zone[], delays interval[], expires_ats timestamp with time zone[], priorities integer[], groups text[], keys text[], ids uuid[], uniques text[]) RETURNS TABLE(id uuid, key text, outcome text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
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
$_$;

CREATE FUNCTION mainspring.place_calls(tasks text[], arguments text[], due_ats timestamp with time zone[], delays interval[], expires_ats timestamp with time zone[], priorities integer[], groups text[], keys text[], ids uuid[], uniques text[]) RETURNS TABLE(id uuid, key text, outcome text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
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

CREATE FUNCTION mainspring.print_clear() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO, YMD'
    SET "IntervalStyle" TO 'postgres'
    SET bytea_output TO 'hex'
    SET extra_float_digits TO '1'
    SET jit TO 'off'
    AS $$
declare
  wanted constant text := nullif(current_setting('mainspring.clear_' || md5(tg_argv[0]), true), '');
  printed text;
begin
  if wanted is null or not has_table_privilege(tg_relid, 'select') or row_security_active(tg_relid) then
    return null;
  end if;
  execute wanted into printed;
  perform set_config('mainspring.cleared_' || md5(tg_argv[0]), coalesce(printed, '[]'), true);
  return null;
exception when others then
  return null;
end
$$;

CREATE FUNCTION mainspring.prints_equals_alike(relation oid, names text[], types text[]) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select coalesce(bool_and(
      t.typtype = 'e' or (t.typnamespace = 'pg_catalog'::regnamespace and coalesce(c.collisdeterministic, true)
        and (t.typname in ('int2', 'int4', 'int8', 'oid', 'bool', 'uuid', 'text', 'varchar', 'bpchar', 'name', 'bytea', 'date', 'time',
            'timestamp', 'timestamptz', 'inet', 'cidr', 'macaddr')
          or (t.typname = 'numeric' and a.atttypmod >= 0)))), true)
    from unnest(names) k(name)
    join pg_attribute a on a.attrelid = relation and a.attname = k.name and not a.attisdropped
    join pg_type t on t.oid = a.atttypid
    left join pg_collation c on c.oid = a.attcollation
  $$;

CREATE FUNCTION mainspring.refuse_full(task text, most integer) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  raise exception 'task % is full: % of its calls may wait', quote_literal(task), most using
    errcode = 'program_limit_exceeded',
    hint = 'enqueue it again when some have run; mainspring queues limit --waiting-max sets how many may wait';
end
$$;

CREATE FUNCTION mainspring.refuse_numeric(param text, value numeric) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
  raise exception 'param % was given the number %, which is not a whole number of type bigint', quote_literal(param), value
    using errcode = 'invalid_parameter_value', hint = 'cast it: value::bigint';
end
$$;

CREATE FUNCTION mainspring.refuse_taken(tasks text[], key text, by_call uuid) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  raise exception 'the key % is taken by call % of %', quote_literal(key), by_call,
      (select string_agg(distinct quote_literal(t.name), ', ') from unnest(tasks) as t(name)) using
    errcode = 'unique_violation',
    hint = 'enqueue it again when that has ended, or with another policy (unique)';
end
$$;

CREATE FUNCTION mainspring.refuse_task(task text) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION mainspring.refuse_zoneless(param text, type text) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
  raise exception 'param % was given a %, which has no time zone', quote_literal(param), type
    using errcode = 'invalid_parameter_value',
    hint = 'say which moment is meant: value at time zone ''Europe/Berlin'', or a timestamptz such as now()';
end
$$;

CREATE FUNCTION mainspring.replay_events(kind text, consumer text, numbers bigint[], operation bigint) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
  told text[];
begin
  if not exists (select from mainspring.consumer c
    where c.kind = replay_events.kind and c.name = replay_events.consumer and c.retired_at is null) then
    raise exception 'kind % has no consumer %', quote_literal(replay_events.kind), quote_literal(replay_events.consumer)
      using errcode = 'undefined_object';
  end if;
  with item as materialized (
    select k.* from mainspring.event_kept k
    where k.kind = replay_events.kind and k.number = any(numbers)
    order by k.shard, k.key, k.number
  ),
  back as (
    insert into mainspring.event as e (shard, kind, key, number, stage, what, entity_version, state_version, body, run, created_at)
    select i.shard, i.kind, i.key, i.number, i.stage, i.what, i.entity_version, i.state_version, i.body, i.run, i.created_at
    from item i
    on conflict on constraint event_pkey do update set what = e.what
    returning e.shard, e.kind, e.key, e.number
  ),
  made as (
    insert into mainspring.delivery (shard, kind, key, consumer, number, replay)
    select b.shard, b.kind, b.key, replay_events.consumer, b.number, replay_events.operation from back b
    on conflict do nothing
  )
  select array_agg(distinct i.key) into told from item i;
  if told is not null then
    perform mainspring.offer_visits(replay_events.kind || '!' || replay_events.consumer, told,
      array_fill('{}'::jsonb, array[cardinality(told)]));
    perform mainspring.wake(replay_events.kind || '!' || replay_events.consumer, mainspring.now());
  end if;
  return cardinality(numbers);
end
$$;

CREATE FUNCTION mainspring.resend_entities(kind text, keys text[], consumer text) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO, YMD'
    SET "IntervalStyle" TO 'postgres'
    SET bytea_output TO 'hex'
    SET extra_float_digits TO '1'
    AS $_$
declare
  declared mainspring.kind;
  of_stage text;
  shards integer := (select i.shard_count from mainspring.install i);
  source text;
  matches text;
  row_version text;
  told text[];
begin
  select k.* into strict declared from mainspring.kind k where k.name = resend_entities.kind;
  select c.declared ->> 'stage' into of_stage from mainspring.consumer c
    where c.kind = resend_entities.kind and c.name = resend_entities.consumer and c.retired_at is null;
  if not found then
    raise exception 'kind % has no consumer %', quote_literal(resend_entities.kind), quote_literal(resend_entities.consumer)
      using errcode = 'undefined_object';
  end if;
  if declared.source = 'dao' then
    raise exception 'kind % has a dao: its entities cannot be locked here', quote_literal(resend_entities.kind)
      using errcode = 'feature_not_supported';
  elsif declared.source = 'document' then
    source := 'mainspring.document';
    matches := format('t.kind = %L and t.key = i.key', resend_entities.kind);
    row_version := 't.version';
  else
    source := declared.source::regclass::text;
    select string_agg(format('t.%I = %s::%s', k.name,
        case when cardinality(declared.keys) = 1 then 'i.key' else format('(i.key::jsonb->>%s)', k.n - 1) end, k.type), ' and ')
      into matches from unnest(declared.keys, declared.key_types) with ordinality as k(name, type, n);
    row_version := case when declared.version_column = 'xmin' then 'null::bigint' else format('t.%I', declared.version_column) end;
  end if;
  execute format('select array_agg(x.key) from (
      select i.key from (select k.key from unnest($1) as k(key) order by mainspring.shard(k.key, $2), k.key) i
      join %s t on %s for share of t) x', source, matches)
    into told using keys, shards;
  execute format('with item as (
      select mainspring.shard(i.key, $2) as shard, i.key, %s as body, %s as version
      from unnest($1) as i(key) join %s t on %s
    ),
    event as (
      insert into mainspring.event (shard, kind, key, stage, what, entity_version, state_version, body)
      select i.shard, $3, i.key, coalesce(s.stage, $5), ''snapshot'', i.version, s.version,
        jsonb_build_object(''entity'', i.body, ''changed'', ''{}''::jsonb, ''schema'', coalesce(s.schema, 1), ''state'',
          case when s.message is null then s.body
            else jsonb_build_object(''@type'', s.message_type, ''value'', encode(s.message, ''base64'')) end)
      from item i
      left join mainspring.state s on s.shard = i.shard and s.kind = $3 and s.key = i.key and s.stage = coalesce($5, s.stage)
      order by i.shard, i.key, s.stage
      returning shard, key, number
    )
    insert into mainspring.delivery (shard, kind, key, consumer, number) select e.shard, $3, e.key, $4, e.number from event e',
    case declared.source when 'document' then 't.body' else 'to_jsonb(t.*)' end, row_version, source, matches)
    using told, shards, resend_entities.kind, resend_entities.consumer, of_stage;
  if told is not null then
    perform mainspring.offer_visits(resend_entities.kind || '!' || resend_entities.consumer, told,
      array_fill('{}'::jsonb, array[cardinality(told)]));
    perform mainspring.wake(resend_entities.kind || '!' || resend_entities.consumer, mainspring.now());
  end if;
  return coalesce(cardinality(told), 0);
end
$_$;

CREATE FUNCTION mainspring.resend_soon(kind text, consumer text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  perform mainspring.offer_visit_at('mainspring.snapshot' || case when k.pool = 'default' then '' else '@' || k.pool end,
      k.name || '!' || consumer, '{}'::jsonb, 5, mainspring.now())
    from mainspring.kind k where k.name = resend_soon.kind;
  return found;
end
$$;

CREATE FUNCTION mainspring.restart_visits(shards text, keys text, queues text, versions text, priority smallint, fresh_ids boolean) RETURNS TABLE(queue text, key text, id uuid, hints bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
begin
  return query
  with wanted as materialized (
    select v.address, i.version
    from (
      select unnest(restart_visits.shards::integer[]) as shard, json_array_elements_text(restart_visits.keys::json) as key,
        json_array_elements_text(restart_visits.queues::json) as queue, unnest(restart_visits.versions::bigint[]) as version
    ) i
    cross join lateral (
      select ctid as address
      from mainspring.visit
      where key = i.key and queue = i.queue and shard = coalesce(i.shard, shard) and parked_at is not null
      for update skip locked
    ) v
  ),
  freed as (
    update mainspring.visit v
    set parked_at = null, offered_while_parked = false, attempt = 0, crashes = 0, work_timeouts = 0, error = null, error_type = null, fingerprint = null,
      called_off = null, due_at = mainspring.now(), version = w.version, priority = coalesce(restart_visits.priority, v.priority),
      id = case when restart_visits.fresh_ids then mainspring.uuid7() else v.id end,
      expires_at = case when v.expires_at > mainspring.now() then v.expires_at end,
      payload = mainspring.restarted_payload(v.payload),
      changed_at = mainspring.now()
    from wanted w
    where v.ctid = w.address
    returning v.queue, v.key, v.id
  ),
  hint as materialized (
    select mainspring.wake(queue, mainspring.now()) from (select distinct queue from freed) f
  )
  select f.queue::text, f.key::text, f.id, (select count(*) from hint)
  from freed f;
end
$$;

CREATE FUNCTION mainspring.restarted_payload(payload jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN (payload ?& ARRAY['@'::text, 'deadline'::text]) THEN (payload - 'deadline'::text) ELSE payload END;

CREATE FUNCTION mainspring.result_of(task text, id uuid, key text DEFAULT NULL::text) RETURNS TABLE(state text, result text, error text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  visit_key constant text := coalesce(result_of.key, result_of.id::text);
begin
  return query
  select f.state, f.result, f.error
  from (
    select s.state::text as state, null::text as result, s.error, 1 as rank, null::timestamptz as ended_at
    from mainspring.visit_status s
    where s.key = visit_key and s.queue = result_of.task and s.id = result_of.id
    union all
    select case when (v.follow_up ->> 'due_at')::timestamptz > mainspring.now() then 'scheduled' else 'waiting' end, null, null, 1, null
    from mainspring.visit v  -- it waits behind the run that has its key
    where v.key = visit_key and v.queue = result_of.task and (v.follow_up ->> 'id')::uuid = result_of.id
    union all
    select h.outcome::text, h.result::text, h.error, 2, h.ended_at
    from mainspring.history_run h
    where h.key = visit_key and h.queue = result_of.task and h.id = result_of.id
      and h.outcome in ('done', 'cancelled', 'expired') and not h.superseded
    union all
    select 'done', null, null, 2, p.last_end
    from mainspring.history_bundle p
    where visit_key = result_of.id::text and p.kin = left(visit_key, 8) and p.last_key >= visit_key
      and p.first_key <= visit_key and p.queue = result_of.task and result_of.id = any(p.ids)
  ) f
  order by f.rank, f.ended_at desc
  limit 1;
end
$$;

CREATE FUNCTION mainspring.rewind(param text, value date, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ begin perform mainspring.refuse_zoneless(param, 'date'); return false; end $$;

CREATE FUNCTION mainspring.rewind(param text, value integer, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$select mainspring.rewind(param, value::bigint, why)$$;

CREATE FUNCTION mainspring.rewind(param text, value bigint, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(param, a.answer, a.known_kind, a.old, value::text, 'integer')
    from mainspring.rewind_param(param, 'integer', value::text, '{}', session_user, why) a
  $$;

CREATE FUNCTION mainspring.rewind(param text, value text, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(param, a.answer, a.known_kind, a.old, value, k.kind)
    from (select coalesce((select p.kind from mainspring.param p where p.name = param), 'version') as kind) k
    cross join lateral mainspring.rewind_param(param, k.kind, mainspring.parse_value(param, k.kind, value), '{}',
      session_user, why) a
  $$;

CREATE FUNCTION mainspring.rewind(param text, value timestamp without time zone, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ begin perform mainspring.refuse_zoneless(param, 'timestamp'); return false; end $$;

CREATE FUNCTION mainspring.rewind(param text, value timestamp with time zone, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(param, a.answer, a.known_kind, a.old, mainspring.micros(value)::text, 'instant')
    from mainspring.rewind_param(param, 'instant', mainspring.finite_micros(param, value)::text, '{}', session_user, why) a
  $$;

CREATE FUNCTION mainspring.rewind_param(name text, kind text, given text, chunks bigint[] DEFAULT '{}'::bigint[], changed_by text DEFAULT NULL::text, why text DEFAULT NULL::text) RETURNS TABLE(answer text, known_kind text, old text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  known mainspring.param;
  moment timestamptz;
  found_answer text;
begin
  select * into known from mainspring.param p where p.name = rewind_param.name for no key update;
  moment := mainspring.clock();
  found_answer := case
    when known.name is null then 'unknown'
    when known.kind <> rewind_param.kind then 'kind'
    when known.num is null and known.ver is null then 'empty'
    when known.kind = 'version' then 'set'
    when known.kind = 'instant' and given::bigint not between 0 and 221845391999999999 then 'range'
    when given::bigint > known.num then 'higher'
    when given::bigint = known.num and cardinality(chunks) = 0 then 'same'
    else 'set'
  end;
  if found_answer = 'set' then
    update mainspring.param p
    set num = case when known.kind <> 'version' then given::bigint end, ver = case when known.kind = 'version' then given end,
      rewinds = p.rewinds + 1, revision = p.revision + 1, changed_at = moment, changed_by = rewind_param.changed_by, why = rewind_param.why,
      ahead = known.kind = 'instant' and given::bigint > mainspring.micros(moment + known.warn_ahead)
    where p.name = known.name;
    insert into mainspring.param_rewind (param, number, num, ver, old_num, old_ver, chunks, changed_by, why, at)
    select p.name, p.rewinds, p.num, p.ver, known.num, known.ver, rewind_param.chunks, p.changed_by, p.why, moment
    from mainspring.param p where p.name = known.name;
    insert into mainspring.param_log (param, num, ver, old_num, old_ver, is_rewind, changed_by, why, at)
    select p.name, p.num, p.ver, known.num, known.ver, true, p.changed_by, p.why, moment
    from mainspring.param p where p.name = known.name;
    perform mainspring.offer_changes(array[known.name]);
  end if;
  return query select found_answer, known.kind, coalesce(known.num::text, known.ver);
end
$$;

CREATE FUNCTION mainspring.row_expression(relation oid, alias text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    select string_agg(case when a.atttypid < 16384 then format('%I.%I', alias, a.attname)
        else format('%s as %I', mainspring.own_column(alias, a.attname, a.atttypid, false), a.attname) end, ', ' order by a.attnum)
    from pg_attribute a where a.attrelid = relation and a.attnum > 0 and not a.attisdropped
  $$;

CREATE FUNCTION mainspring.row_json(entity record) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  return to_jsonb(entity);
exception when others then
  return null;
end
$$;

CREATE FUNCTION mainspring.run_now(task text, id uuid DEFAULT NULL::uuid, key text DEFAULT NULL::text, grp text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION mainspring.runs_of(bundle mainspring.history_bundle) RETURNS TABLE(run bigint, id uuid, due_at timestamp with time zone, created_at timestamp with time zone, started_at timestamp with time zone, ended_at timestamp with time zone, duration_ms double precision, payload jsonb)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    select u.run, u.id, u.due_at, u.created_at, to_timestamp(u.started_us / 1e6::double precision),
      to_timestamp((u.started_us + u.took) / 1e6::double precision), u.took / 1e3::double precision, u.payload
    from unnest(bundle.runs, bundle.ids, bundle.due_at, bundle.created_at, bundle.started_us, bundle.took, bundle.payloads)
      as u(run, id, due_at, created_at, started_us, took, payload);
  $$;

CREATE FUNCTION mainspring.set_state(kind text, id text, stage text, version bigint, body jsonb, schema integer DEFAULT 1, message bytea DEFAULT NULL::bytea, message_type text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO, YMD'
    SET "IntervalStyle" TO 'postgres'
    SET bytea_output TO 'hex'
    SET extra_float_digits TO '1'
    AS $_$
declare
  declared mainspring.kind;
  visit_key text;
  home integer;
  entity json;
  entity_version bigint;
  fresh bigint;
  consumers text[];
  consumer text;
  drawn bigint;
begin
  select c.key into visit_key from mainspring.canonical_keys(set_state.kind, array[set_state.id]) c;
  select k.* into strict declared from mainspring.kind k where k.name = set_state.kind;
  if not exists (select from mainspring.stage s where s.kind = set_state.kind and s.name = set_state.stage) then
    raise exception 'kind % has no stage %', quote_literal(set_state.kind), quote_literal(set_state.stage) using
      errcode = 'undefined_object', hint = 'stages are registered by a worker or by "mainspring migrate module:app"';
  end if;
  select mainspring.shard(visit_key, i.shard_count) into home from mainspring.install i;
  if declared.source = 'document' then
    select d.body::json, d.version into entity, entity_version
      from mainspring.document d where d.kind = set_state.kind and d.key = visit_key for no key update;
    if not found then
      return null;
    end if;
  elsif declared.source <> 'dao' then
    execute format('select row_to_json(t.*), %s from %s t where %s for no key update',
        case when declared.version_column = 'xmin' then 'null' else format('t.%I', declared.version_column) end,
        declared.source::regclass,
        (select string_agg(format('t.%I = %s::%s', k.name,
            case when cardinality(declared.keys) = 1 then '$1' else format('($1::jsonb->>%s)', k.n - 1) end, k.type), ' and ')
          from unnest(declared.keys, declared.key_types) with ordinality as k(name, type, n)))
      into entity, entity_version using visit_key;
    if entity is null then
      return null;
    end if;
  end if;
  if set_state.version = 0 then
    insert into mainspring.state as s (shard, kind, key, stage, schema, body, message, message_type)
    values (home, set_state.kind, visit_key, set_state.stage, set_state.schema, set_state.body, set_state.message,
      set_state.message_type)
    on conflict do nothing
    returning s.version into fresh;
  else
    update mainspring.state s
    set version = nextval('mainspring.state_version'), schema = set_state.schema, body = set_state.body,
      message = set_state.message, message_type = set_state.message_type, changed_at = mainspring.now()
    where s.shard = home and s.kind = set_state.kind and s.key = visit_key and s.stage = set_state.stage
      and s.version = set_state.version
    returning s.version into fresh;
  end if;
  if fresh is null then
    return false;
  end if;
  select array_agg(c.name order by c.name) into consumers
    from mainspring.consumer c
    where c.kind = set_state.kind and c.retired_at is null
      and (c.declared ->> 'stage' = set_state.stage or not c.declared ? 'stage');
  perform mainspring.offer_visits(set_state.kind, array[visit_key],
    array[jsonb_build_object('ask:' || set_state.stage, 1, 'out', 1)]);
  perform mainspring.wake(set_state.kind, mainspring.now());
  if consumers is not null then
    insert into mainspring.event (shard, kind, key, stage, what, entity_version, state_version, body)
    values (home, set_state.kind, visit_key, set_state.stage, 'state', entity_version, fresh,
      jsonb_build_object('entity', entity, 'changed', '{}'::jsonb, 'schema', set_state.schema, 'state',
        case when set_state.message is null then set_state.body
          else jsonb_build_object('@type', set_state.message_type, 'value', encode(set_state.message, 'base64')) end))
    returning number into drawn;
    if declared.declared ->> 'keep_events' is not null then
      insert into mainspring.event_kept (shard, kind, key, number, stage, what, entity_version, state_version, body, run)
      select e.shard, e.kind, e.key, e.number, e.stage, e.what, e.entity_version, e.state_version, e.body, e.run
      from mainspring.event e
      where e.shard = home and e.kind = set_state.kind and e.key = visit_key and e.number = drawn;
    end if;
    foreach consumer in array consumers loop
      insert into mainspring.delivery (shard, kind, key, consumer, number)
      values (home, set_state.kind, visit_key, consumer, drawn);
      perform mainspring.offer_visits(set_state.kind || '!' || consumer, array[visit_key], array['{}'::jsonb]);
      perform mainspring.wake(set_state.kind || '!' || consumer, mainspring.now());
    end loop;
  end if;
  return true;
end
$_$;

CREATE FUNCTION mainspring.shard(route text, shard_count integer) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((((('x'::text || encode(SUBSTRING(sha256(convert_to(route, 'UTF8'::name)) FROM 1 FOR 4), 'hex'::text)))::bit(32))::bigint % (shard_count)::bigint))::integer;

CREATE FUNCTION mainspring.shown(kind text, num bigint, ver text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE kind WHEN 'instant'::text THEN to_char((mainspring.instant(num) AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'::text) WHEN 'integer'::text THEN (num)::text ELSE ver END;

CREATE FUNCTION mainspring.stage_queue(kind text, stage text, crawl boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  if not exists (select from mainspring.kind k where k.name = stage_queue.kind) then
    raise exception 'unknown kind %', quote_literal(kind) using
      errcode = 'undefined_object', hint = 'kinds are registered by a worker or by "mainspring migrate module:app"';
  end if;
  if stage is not null
    and not exists (select from mainspring.stage s where s.kind = stage_queue.kind and s.name = stage_queue.stage) then
    raise exception 'kind % has no stage %', quote_literal(kind), quote_literal(stage) using errcode = 'undefined_object';
  end if;
  return kind || coalesce('/' || stage, '') || case when crawl then '~' else '' end;
end
$$;

CREATE FUNCTION mainspring.take_over_stage(kind text, former text, stage text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  p_kind text := kind;
  p_former text := former;
  p_stage text := stage;
  known boolean;
begin
  perform from mainspring.kind k where k.name = p_kind for no key update;
  known := exists (select from mainspring.stage s where s.kind = p_kind and s.name = p_former);
  if known then
    delete from mainspring.state o
    using mainspring.state n
    where o.kind = p_kind and o.stage = p_former
      and n.shard = o.shard and n.kind = o.kind and n.key = o.key and n.stage = p_stage;
    update mainspring.state s set stage = p_stage where s.kind = p_kind and s.stage = p_former;
    if exists (select from mainspring.stage s where s.kind = p_kind and s.name = p_stage) then
      delete from mainspring.stage s where s.kind = p_kind and s.name = p_former;
    else
      update mainspring.stage s set name = p_stage, retired_at = null where s.kind = p_kind and s.name = p_former;
    end if;
    update mainspring.kind k set generation = k.generation + 1, changed_at = now() where k.name = p_kind;
    insert into mainspring.consumer (kind, name, declared)
    select c.kind, p_stage, c.declared || jsonb_build_object('stage', p_stage)
    from mainspring.consumer c
    where c.kind = p_kind and c.name = p_former and c.declared ->> 'stage' = p_former
    on conflict do nothing;
    update mainspring.delivery d set consumer = p_stage where d.kind = p_kind and d.consumer = p_former
      and exists (select from mainspring.consumer c
        where c.kind = p_kind and c.name = p_former and c.declared ->> 'stage' = p_former);
    delete from mainspring.consumer c
    where c.kind = p_kind and c.name = p_former and c.declared ->> 'stage' = p_former;
  end if;
  perform mainspring.move_visits(
    array[p_kind || '/' || p_former, p_kind || '/' || p_former || '~', p_kind || '!' || p_former],
    array[p_kind || '/' || p_stage, p_kind || '/' || p_stage || '~', p_kind || '!' || p_stage]);
  return known;
end
$$;

CREATE FUNCTION mainspring.take_place(ended mainspring.visit, call mainspring.visit) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION mainspring.token() RETURNS bigint
    LANGUAGE sql PARALLEL SAFE
    AS $$select uuid_hash_extended(gen_random_uuid(), 0)$$;

CREATE FUNCTION mainspring.uuid7() RETURNS uuid
    LANGUAGE sql PARALLEL SAFE
    AS $$
    select encode(
      overlay(
        set_byte(uuid_send(gen_random_uuid()), 6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112)
        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
        from 1 for 6
      ), 'hex')::uuid
  $$;

CREATE FUNCTION mainspring.visit_key(id uuid, grp text, key text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (key IS NULL) THEN (id)::text WHEN ((grp IS NULL) AND (key !~ '^[0-9]+:'::text)) THEN key ELSE ((((octet_length(COALESCE(grp, ''::text)) || ':'::text) || COALESCE(grp, ''::text)) || ':'::text) || key) END;

CREATE FUNCTION mainspring.visit_violations(after text, upto text) RETURNS TABLE(rule text, detail text)
    LANGUAGE sql STABLE
    AS $$
    select r.rule, v.queue || ' ' || v.key
    from mainspring.install i
    cross join mainspring.visit v
    cross join lateral (values
      ('a visit lies outside the shards', v.shard not between 0 and i.shard_count - 1),
      ('a visit lies in a shard that is not its route''s', v.grp is not null and v.shard <> mainspring.shard(v.grp, i.shard_count)),
      ('a visit can never be read: its key, its time or its priority is none',
        v.due_at not between '0001-01-01Z' and '9999-01-01Z' or v.priority not between 0 and 9
          or octet_length(v.key) not between 1 and 1300),
      ('a held visit has no living holder', v.pass is not null and v.held_until is null
        and not exists (select from mainspring.worker w where w.id = v.holder)),
      ('a visit is half held', (v.pass is null) <> (v.started_at is null) or (v.pass is null and v.held_until is not null))
    ) as r(rule, is_broken)
    where (visit_violations.after is null or v.key > visit_violations.after)
      and (visit_violations.upto is null or v.key <= visit_violations.upto)
      and (v.grp is not null or v.pass is not null or v.started_at is not null or v.held_until is not null
        or v.shard not between 0 and i.shard_count - 1 or v.due_at not between '0001-01-01Z' and '9999-01-01Z'
        or v.priority not between 0 and 9
        or octet_length(v.key) not between 1 and 1300)
      and r.is_broken
    union all
    select 'a queue and key has two visits', v.queue || ' ' || v.key
    from mainspring.visit v
    where (visit_violations.after is null or v.key > visit_violations.after)
      and (visit_violations.upto is null or v.key <= visit_violations.upto)
    group by v.key, v.queue
    having count(*) > 1
  $$;

CREATE FUNCTION mainspring.wait_behind(taken mainspring.visit, call mainspring.visit) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    update mainspring.visit v
    set follow_up = jsonb_build_object('id', call.id, 'priority', call.priority, 'due_at', call.due_at, 'expires_at', call.expires_at,
      'created_at', call.created_at, 'payload', call.payload)
    where v.shard = taken.shard and v.key = taken.key and v.queue = taken.queue
  $$;

CREATE FUNCTION mainspring.wake(queue text, due_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
  if exists (
    select from mainspring.worker w
    where w.asleep and w.pool = (select q.pool from mainspring.queue q where q.name = wake.queue)
  ) or exists (
    select from mainspring.sleeper s where s.queue = wake.queue and s.until > pg_catalog.now()
  ) then
    perform pg_notify('mainspring', (extract(epoch from due_at) * 1000000)::bigint::text || ' ' || queue);
  end if;
end
$$;

CREATE FUNCTION mainspring.warn_of_trigger(relation oid, trigger text, kind text) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
  raise warning 'mainspring: trigger % on % is not registered for kind %; this change is not seen',
    quote_ident(trigger), relation::regclass, quote_literal(kind)
    using hint = 'run mainspring migrate module:app as the owner of schema mainspring, or drop the trigger';
  return false;
end
$$;

CREATE FUNCTION mainspring.was_enqueued(task text, id uuid, key text, shard integer) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
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

CREATE TABLE mainspring.api_token (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    hash bytea,
    san text COLLATE pg_catalog."C",
    scopes text[] NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text DEFAULT ''::text NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    CONSTRAINT api_token_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT api_token_name_check CHECK (((name <> ''::text) AND (octet_length(name) <= 200))),
    CONSTRAINT api_token_proof_check CHECK (((hash IS NULL) <> (san IS NULL)))
);

CREATE TABLE mainspring.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    actor text NOT NULL,
    via text NOT NULL,
    address text,
    action text NOT NULL COLLATE pg_catalog."C",
    target text NOT NULL COLLATE pg_catalog."C",
    reason text,
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    result text,
    operation bigint
);

ALTER TABLE mainspring.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mainspring.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE mainspring.band (
    name text NOT NULL COLLATE pg_catalog."C",
    pool text NOT NULL COLLATE pg_catalog."C",
    queues text[] NOT NULL,
    used_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
);

CREATE TABLE mainspring.blame (
    worker_id uuid NOT NULL,
    shard integer NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    id uuid NOT NULL
);

CREATE TABLE mainspring.breaker (
    queue text NOT NULL COLLATE pg_catalog."C",
    grp text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    failures integer DEFAULT 0 NOT NULL,
    failed_at timestamp with time zone,
    opened_at timestamp with time zone,
    until timestamp with time zone,
    at_once integer,
    reason text,
    CONSTRAINT breaker_open_check CHECK ((((opened_at IS NULL) = (until IS NULL)) AND ((opened_at IS NULL) = (at_once IS NULL))))
);

CREATE TABLE mainspring.captured (
    relid regclass NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE mainspring.consumer (
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    declared jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    retired_at timestamp with time zone
);

CREATE TABLE mainspring.counter (
    actor text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    minute timestamp with time zone NOT NULL,
    n bigint DEFAULT 0 NOT NULL
);

CREATE TABLE mainspring.death (
    worker_id uuid NOT NULL,
    beat_at timestamp with time zone NOT NULL,
    blames_since timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL
);

CREATE TABLE mainspring.definition (
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    format integer NOT NULL,
    tree jsonb NOT NULL,
    options jsonb NOT NULL
);

CREATE TABLE mainspring.delivery (
    shard integer NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    consumer text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    replay bigint
);

CREATE TABLE mainspring.document (
    kind text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    version bigint DEFAULT 1 NOT NULL,
    body jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    changed_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    CONSTRAINT document_body_check CHECK ((jsonb_typeof(body) = 'object'::text)),
    CONSTRAINT document_key_check CHECK (((key <> ''::text) AND (octet_length(key) <= 1300)))
)
WITH (fillfactor='90');

CREATE SEQUENCE mainspring.done_no
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE mainspring.edge (
    process_id uuid NOT NULL,
    promise uuid NOT NULL,
    task uuid NOT NULL,
    kind mainspring.edge_kind NOT NULL,
    pos integer NOT NULL
)
PARTITION BY RANGE (process_id);

CREATE TABLE mainspring.edge_other (
    process_id uuid CONSTRAINT edge_process_id_not_null NOT NULL,
    promise uuid CONSTRAINT edge_promise_not_null NOT NULL,
    task uuid CONSTRAINT edge_task_not_null NOT NULL,
    kind mainspring.edge_kind CONSTRAINT edge_kind_not_null NOT NULL,
    pos integer CONSTRAINT edge_pos_not_null NOT NULL
);

CREATE TABLE mainspring.entry (
    queue text NOT NULL COLLATE pg_catalog."C",
    role regrole NOT NULL
);

CREATE TABLE mainspring.evaluation (
    id bigint NOT NULL,
    task text NOT NULL COLLATE pg_catalog."C",
    at timestamp with time zone NOT NULL,
    verdict boolean NOT NULL,
    fired boolean NOT NULL,
    leaves jsonb NOT NULL,
    cause text
);

ALTER TABLE mainspring.evaluation ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mainspring.evaluation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE mainspring.event_number
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE mainspring.event (
    shard integer NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    number bigint DEFAULT nextval('mainspring.event_number'::regclass) NOT NULL,
    stage text COLLATE pg_catalog."C",
    what text NOT NULL,
    entity_version bigint,
    state_version bigint,
    body jsonb,
    run bigint,
    created_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
);

CREATE TABLE mainspring.event_kept (
    day date DEFAULT ((mainspring.now() AT TIME ZONE 'UTC'::text))::date NOT NULL,
    shard integer NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    stage text COLLATE pg_catalog."C",
    what text NOT NULL,
    entity_version bigint,
    state_version bigint,
    body jsonb,
    run bigint,
    created_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
)
PARTITION BY RANGE (day);

CREATE TABLE mainspring.event_kept_other (
    day date DEFAULT ((mainspring.now() AT TIME ZONE 'UTC'::text))::date CONSTRAINT event_kept_day_not_null NOT NULL,
    shard integer CONSTRAINT event_kept_shard_not_null NOT NULL,
    kind text CONSTRAINT event_kept_kind_not_null NOT NULL COLLATE pg_catalog."C",
    key text CONSTRAINT event_kept_key_not_null NOT NULL COLLATE pg_catalog."C",
    number bigint CONSTRAINT event_kept_number_not_null NOT NULL,
    stage text COLLATE pg_catalog."C",
    what text CONSTRAINT event_kept_what_not_null NOT NULL,
    entity_version bigint,
    state_version bigint,
    body jsonb,
    run bigint,
    created_at timestamp with time zone DEFAULT mainspring.now() CONSTRAINT event_kept_created_at_not_null NOT NULL
);

CREATE TABLE mainspring.external (
    task uuid NOT NULL,
    process_id uuid NOT NULL,
    kind mainspring.external_kind NOT NULL,
    name text COLLATE pg_catalog."C",
    due_at timestamp with time zone,
    child uuid,
    since bigint
);

CREATE TABLE mainspring.history_run (
    day date CONSTRAINT history_day_not_null NOT NULL,
    run bigint CONSTRAINT history_run_not_null NOT NULL,
    id uuid CONSTRAINT history_id_not_null NOT NULL,
    queue text CONSTRAINT history_queue_not_null NOT NULL COLLATE pg_catalog."C",
    key text CONSTRAINT history_key_not_null NOT NULL COLLATE pg_catalog."C",
    grp text COLLATE pg_catalog."C",
    priority smallint CONSTRAINT history_priority_not_null NOT NULL,
    attempt integer CONSTRAINT history_attempt_not_null NOT NULL,
    outcome mainspring.outcome CONSTRAINT history_outcome_not_null NOT NULL,
    superseded boolean DEFAULT false CONSTRAINT history_superseded_not_null NOT NULL,
    worker_id uuid CONSTRAINT history_worker_id_not_null NOT NULL,
    created_at timestamp with time zone CONSTRAINT history_created_at_not_null NOT NULL,
    due_at timestamp with time zone CONSTRAINT history_due_at_not_null NOT NULL,
    started_at timestamp with time zone CONSTRAINT history_started_at_not_null NOT NULL,
    ended_at timestamp with time zone CONSTRAINT history_ended_at_not_null NOT NULL,
    duration_ms double precision CONSTRAINT history_duration_ms_not_null NOT NULL,
    error_type text,
    error text,
    payload jsonb CONSTRAINT history_payload_not_null NOT NULL,
    result jsonb,
    searchable text[]
)
PARTITION BY RANGE (day);

CREATE VIEW mainspring.history AS
 SELECT history_run.day,
    history_run.run,
    history_run.id,
    history_run.queue,
    history_run.key,
    history_run.grp,
    history_run.priority,
    history_run.attempt,
    history_run.outcome,
    history_run.superseded,
    history_run.worker_id,
    history_run.created_at,
    history_run.due_at,
    history_run.started_at,
    history_run.ended_at,
    history_run.duration_ms,
    history_run.error_type,
    history_run.error,
    history_run.payload,
    history_run.result,
    history_run.searchable
   FROM mainspring.history_run
UNION ALL
 SELECT p.day,
    r.run,
    r.id,
    p.queue,
    ((r.id)::text COLLATE "C") AS key,
    NULL::text AS grp,
    p.priority,
    1 AS attempt,
    'done'::mainspring.outcome AS outcome,
    false AS superseded,
    p.worker_id,
    r.created_at,
    r.due_at,
    r.started_at,
    r.ended_at,
    r.duration_ms,
    NULL::text AS error_type,
    NULL::text AS error,
    r.payload,
    NULL::jsonb AS result,
    NULL::text[] AS searchable
   FROM (mainspring.history_bundle p
     CROSS JOIN LATERAL mainspring.runs_of(p.*) r(run, id, due_at, created_at, started_at, ended_at, duration_ms, payload));

CREATE TABLE mainspring.history_bundle_other (
    day date CONSTRAINT history_bundle_day_not_null NOT NULL,
    queue text CONSTRAINT history_bundle_queue_not_null NOT NULL COLLATE pg_catalog."C",
    priority smallint CONSTRAINT history_bundle_priority_not_null NOT NULL,
    worker_id uuid CONSTRAINT history_bundle_worker_id_not_null NOT NULL,
    kin text CONSTRAINT history_bundle_kin_not_null NOT NULL COLLATE pg_catalog."C",
    first_key text CONSTRAINT history_bundle_first_key_not_null NOT NULL COLLATE pg_catalog."C",
    last_key text CONSTRAINT history_bundle_last_key_not_null NOT NULL COLLATE pg_catalog."C",
    first_end timestamp with time zone CONSTRAINT history_bundle_first_end_not_null NOT NULL,
    last_end timestamp with time zone CONSTRAINT history_bundle_last_end_not_null NOT NULL,
    size integer CONSTRAINT history_bundle_size_not_null NOT NULL,
    took_us bigint CONSTRAINT history_bundle_took_us_not_null NOT NULL,
    runs bigint[] CONSTRAINT history_bundle_runs_not_null NOT NULL,
    ids uuid[] CONSTRAINT history_bundle_ids_not_null NOT NULL,
    due_at timestamp with time zone[] CONSTRAINT history_bundle_due_at_not_null NOT NULL,
    created_at timestamp with time zone[] CONSTRAINT history_bundle_created_at_not_null NOT NULL,
    started_us bigint[] CONSTRAINT history_bundle_started_us_not_null NOT NULL,
    took bigint[] CONSTRAINT history_bundle_took_not_null NOT NULL,
    payloads jsonb[] CONSTRAINT history_bundle_payloads_not_null NOT NULL
);
ALTER TABLE ONLY mainspring.history_bundle_other ALTER COLUMN runs SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle_other ALTER COLUMN ids SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle_other ALTER COLUMN due_at SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle_other ALTER COLUMN created_at SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle_other ALTER COLUMN started_us SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle_other ALTER COLUMN took SET STORAGE EXTERNAL;
ALTER TABLE ONLY mainspring.history_bundle_other ALTER COLUMN payloads SET STORAGE EXTERNAL;

CREATE TABLE mainspring.history_other (
    day date CONSTRAINT history_day_not_null NOT NULL,
    run bigint CONSTRAINT history_run_not_null NOT NULL,
    id uuid CONSTRAINT history_id_not_null NOT NULL,
    queue text CONSTRAINT history_queue_not_null NOT NULL COLLATE pg_catalog."C",
    key text CONSTRAINT history_key_not_null NOT NULL COLLATE pg_catalog."C",
    grp text COLLATE pg_catalog."C",
    priority smallint CONSTRAINT history_priority_not_null NOT NULL,
    attempt integer CONSTRAINT history_attempt_not_null NOT NULL,
    outcome mainspring.outcome CONSTRAINT history_outcome_not_null NOT NULL,
    superseded boolean DEFAULT false CONSTRAINT history_superseded_not_null NOT NULL,
    worker_id uuid CONSTRAINT history_worker_id_not_null NOT NULL,
    created_at timestamp with time zone CONSTRAINT history_created_at_not_null NOT NULL,
    due_at timestamp with time zone CONSTRAINT history_due_at_not_null NOT NULL,
    started_at timestamp with time zone CONSTRAINT history_started_at_not_null NOT NULL,
    ended_at timestamp with time zone CONSTRAINT history_ended_at_not_null NOT NULL,
    duration_ms double precision CONSTRAINT history_duration_ms_not_null NOT NULL,
    error_type text,
    error text,
    payload jsonb CONSTRAINT history_payload_not_null NOT NULL,
    result jsonb,
    searchable text[]
);

CREATE TABLE mainspring.install (
    id boolean DEFAULT true NOT NULL,
    shard_count integer NOT NULL,
    installed_at timestamp with time zone DEFAULT now() NOT NULL,
    timeline integer,
    CONSTRAINT install_id_check CHECK (id),
    CONSTRAINT install_shard_count_check CHECK (((shard_count >= 1) AND (shard_count <= 65536)))
);

CREATE TABLE mainspring.kind (
    name text NOT NULL COLLATE pg_catalog."C",
    pool text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL,
    keys text[] DEFAULT '{}'::text[] NOT NULL,
    key_types text[] DEFAULT '{}'::text[] NOT NULL,
    version_column text DEFAULT 'version'::text NOT NULL,
    capture text DEFAULT 'statement'::text NOT NULL,
    ignored text[] DEFAULT '{}'::text[] NOT NULL,
    notify boolean DEFAULT true NOT NULL,
    generation bigint DEFAULT 1 NOT NULL,
    declared jsonb DEFAULT '{}'::jsonb NOT NULL,
    crawl_every interval,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT kind_capture_check CHECK ((capture = ANY (ARRAY['statement'::text, 'row'::text, 'always'::text, 'call'::text]))),
    CONSTRAINT kind_name_check CHECK ((name ~ '^[A-Za-z][A-Za-z0-9_.-]{0,39}$'::text))
);

CREATE TABLE mainspring.lease (
    pool text NOT NULL COLLATE pg_catalog."C",
    shard integer NOT NULL,
    worker_id uuid,
    epoch bigint DEFAULT 0 NOT NULL,
    offered_to uuid,
    suspect_of uuid,
    given_at timestamp with time zone
)
WITH (fillfactor='50');

CREATE UNLOGGED TABLE mainspring.leaving (
    id bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    xact xid8 NOT NULL,
    body jsonb
);

ALTER TABLE mainspring.leaving ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mainspring.leaving_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE mainspring.migration (
    number integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE mainspring.operation (
    id bigint NOT NULL,
    kind text NOT NULL,
    source text NOT NULL,
    filter jsonb DEFAULT '{}'::jsonb NOT NULL,
    state mainspring.operation_state DEFAULT 'running'::mainspring.operation_state NOT NULL,
    total bigint,
    done bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    "position" jsonb,
    error text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone
);

ALTER TABLE mainspring.operation ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mainspring.operation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE mainspring.operation_item (
    operation_id bigint NOT NULL,
    number bigint NOT NULL,
    queue text NOT NULL,
    key text NOT NULL,
    error text
);

CREATE TABLE mainspring.param (
    name text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    num bigint,
    ver text,
    rewinds integer DEFAULT 0 NOT NULL,
    changed_at timestamp with time zone,
    changed_by text,
    why text,
    warn_ahead interval DEFAULT '1 day'::interval NOT NULL,
    ahead boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    revision bigint DEFAULT 0 NOT NULL,
    CONSTRAINT param_check CHECK (
CASE
    WHEN (kind = 'version'::text) THEN (num IS NULL)
    ELSE (ver IS NULL)
END),
    CONSTRAINT param_check1 CHECK (((kind <> 'instant'::text) OR ((num >= 0) AND (num <= ('221845392000000000'::bigint - 1))))),
    CONSTRAINT param_kind_check CHECK ((kind = ANY (ARRAY['instant'::text, 'integer'::text, 'version'::text]))),
    CONSTRAINT param_name_check CHECK (((name ~ '^[^.].*\.[^.]+$'::text) AND (octet_length(name) <= 300))),
    CONSTRAINT param_ver_check CHECK ((octet_length(ver) <= 1000))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');

CREATE TABLE mainspring.param_log (
    id bigint NOT NULL,
    param text NOT NULL COLLATE pg_catalog."C",
    num bigint,
    ver text,
    old_num bigint,
    old_ver text,
    is_rewind boolean DEFAULT false NOT NULL,
    changed_by text,
    why text,
    at timestamp with time zone NOT NULL
);

CREATE TABLE mainspring.part (
    queue text NOT NULL COLLATE pg_catalog."C",
    worker_id uuid NOT NULL,
    size integer DEFAULT 0 NOT NULL,
    rate double precision DEFAULT 0 NOT NULL,
    wants boolean DEFAULT false NOT NULL
);

CREATE TABLE mainspring.reactive_pool (
    pool text NOT NULL COLLATE pg_catalog."C",
    cap integer,
    reserve_max interval DEFAULT '00:02:00'::interval NOT NULL,
    declared jsonb DEFAULT '{}'::jsonb NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT reactive_pool_cap_check CHECK ((cap >= 1))
);

CREATE TABLE mainspring.reactive_task (
    task text NOT NULL COLLATE pg_catalog."C",
    pool text NOT NULL COLLATE pg_catalog."C",
    release bigint NOT NULL,
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    declared text NOT NULL COLLATE pg_catalog."C",
    priority smallint DEFAULT 5 NOT NULL,
    turn bigint NOT NULL,
    firing bigint,
    fired_at timestamp with time zone,
    last_fired_at timestamp with time zone,
    cause text,
    kind text,
    record boolean,
    captured jsonb,
    base bigint,
    admitted_at timestamp with time zone,
    run bigint,
    started_at timestamp with time zone,
    seen jsonb DEFAULT '{}'::jsonb NOT NULL,
    seen_run bigint,
    repair jsonb,
    request jsonb,
    failures integer DEFAULT 0 NOT NULL,
    error text,
    retry_at timestamp with time zone,
    succeeded_at timestamp with time zone,
    ended_at timestamp with time zone,
    checked_at timestamp with time zone,
    verdict boolean,
    leaves jsonb,
    since timestamp with time zone,
    kept_back_at timestamp with time zone,
    debounce interval DEFAULT '00:00:00'::interval NOT NULL,
    expect_within interval,
    expected_from timestamp with time zone,
    missed_at timestamp with time zone,
    paused_at timestamp with time zone,
    missing_since timestamp with time zone,
    retired_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT reactive_task_check CHECK (((run IS NULL) OR (firing IS NOT NULL))),
    CONSTRAINT reactive_task_check1 CHECK (((admitted_at IS NULL) OR (firing IS NOT NULL))),
    CONSTRAINT reactive_task_check2 CHECK (((captured IS NULL) = (firing IS NULL))),
    CONSTRAINT reactive_task_kind_check CHECK ((kind = ANY (ARRAY['regular'::text, 'manual'::text]))),
    CONSTRAINT reactive_task_priority_check CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT reactive_task_task_check CHECK (((task <> ''::text) AND (octet_length(task) <= 200)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');

CREATE TABLE mainspring.stage (
    kind text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    interest text[],
    sees_own boolean DEFAULT false NOT NULL,
    was text[] DEFAULT '{}'::text[] NOT NULL,
    since bigint DEFAULT 1 NOT NULL,
    declared jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    retired_at timestamp with time zone
);

CREATE SEQUENCE mainspring.state_version
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE mainspring.state (
    shard integer NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    stage text NOT NULL COLLATE pg_catalog."C",
    version bigint DEFAULT nextval('mainspring.state_version'::regclass) NOT NULL,
    schema integer DEFAULT 1 NOT NULL,
    body jsonb,
    message bytea,
    message_type text,
    changed_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    request_id text,
    request_version bigint
)
WITH (fillfactor='90');

CREATE TABLE mainspring.uses (
    param text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE mainspring.worker (
    id uuid NOT NULL,
    beat bigint DEFAULT 0 NOT NULL,
    pool text NOT NULL COLLATE pg_catalog."C",
    queues text[] NOT NULL,
    slots integer NOT NULL,
    free integer DEFAULT 0 NOT NULL,
    asleep boolean DEFAULT false NOT NULL,
    host text NOT NULL,
    process integer NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    beat_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    bundles boolean DEFAULT false NOT NULL,
    code text,
    turns text[],
    hanging jsonb DEFAULT '[]'::jsonb NOT NULL,
    launch uuid,
    away jsonb DEFAULT '[]'::jsonb NOT NULL
)
WITH (fillfactor='50');

CREATE VIEW mainspring.other_violation AS
 SELECT 'a shard has no lease row'::text AS rule,
    ((p.pool || ' '::text) || n.n) AS detail
   FROM ( SELECT DISTINCT lease.pool
           FROM mainspring.lease
          WHERE (strpos(lease.pool, chr(31)) = 0)) p,
    mainspring.install,
    LATERAL generate_series(0, (install.shard_count - 1)) n(n)
  WHERE (NOT (EXISTS ( SELECT
           FROM mainspring.lease l
          WHERE ((l.pool = p.pool) AND (l.shard = n.n)))))
UNION ALL
 SELECT 'parts add up to more than the limit'::text AS rule,
    p.queue AS detail
   FROM (mainspring.part p
     JOIN mainspring.queue q ON ((q.name = p.queue)))
  GROUP BY p.queue, q.concurrency, q.rate
 HAVING ((sum(p.size) > q.concurrency) OR (sum(p.rate) > (q.rate * (1.000001)::double precision)))
UNION ALL
 SELECT 'a lease belongs to no living worker'::text AS rule,
    ((l.pool || ' '::text) || l.shard) AS detail
   FROM mainspring.lease l
  WHERE ((l.worker_id <> '00000000-0000-0000-0000-000000000000'::uuid) AND (NOT (EXISTS ( SELECT
           FROM mainspring.worker w
          WHERE (w.id = l.worker_id)))))
UNION ALL
 SELECT 'a shard is whole and cut, or neither'::text AS rule,
    ((l.pool || ' '::text) || l.shard) AS detail
   FROM mainspring.lease l
  WHERE ((strpos(l.pool, chr(31)) = 0) AND ((NOT (l.worker_id IS DISTINCT FROM '00000000-0000-0000-0000-000000000000'::uuid)) <> (EXISTS ( SELECT
           FROM mainspring.lease b
          WHERE ((b.pool > l.pool) AND (b.pool < (l.pool || ' '::text)) AND (b.shard = l.shard))))))
UNION ALL
 SELECT 'a queue of a shard is in two bands'::text AS rule,
    ((((n.pool || ' '::text) || b.shard) || ' '::text) || u.queue) AS detail
   FROM ((mainspring.band n
     JOIN mainspring.lease b ON ((b.pool = n.name)))
     CROSS JOIN LATERAL unnest(n.queues) u(queue))
  GROUP BY n.pool, b.shard, u.queue
 HAVING (count(*) > 1)
UNION ALL
 SELECT 'a visit is of a stage that its kind never had'::text AS rule,
    ((v.queue || ' '::text) || v.key) AS detail
   FROM (mainspring.kind k
     JOIN mainspring.visit v ON (((v.queue >= (k.name || '/'::text)) AND (v.queue < (k.name || '0'::text)))))
  WHERE (NOT (EXISTS ( SELECT
           FROM mainspring.stage s
          WHERE ((s.kind = k.name) AND ((v.queue = ((k.name || '/'::text) || s.name)) OR (v.queue = (((k.name || '/'::text) || s.name) || '~'::text)))))))
UNION ALL
 SELECT 'a visit of a crawl goes before live ones'::text AS rule,
    ((v.queue || ' '::text) || v.key) AS detail
   FROM (mainspring.kind k
     JOIN mainspring.visit v ON ((((v.queue >= (k.name || '/'::text)) AND (v.queue < (k.name || '0'::text)) AND (v.queue ~~ '%~'::text)) OR (v.queue = (k.name || '~'::text)))))
  WHERE (v.priority >= 5)
UNION ALL
 SELECT 'a visit or a state is of a document that is not there'::text AS rule,
    x.at AS detail
   FROM ( SELECT ((v.queue || ' '::text) || v.key) AS at,
            k.name,
            v.key
           FROM (mainspring.kind k
             JOIN mainspring.visit v ON ((((v.queue = k.name) OR (v.queue = (k.name || '~'::text))) OR ((v.queue >= (k.name || '/'::text)) AND (v.queue < (k.name || '0'::text))))))
          WHERE ((k.source = 'document'::text) AND (v.parked_at IS NULL) AND (v.due_at > mainspring.now()))
        UNION ALL
         SELECT ((((s.kind || '/'::text) || s.stage) || ' '::text) || s.key),
            k.name,
            s.key
           FROM (mainspring.kind k
             JOIN mainspring.state s ON ((s.kind = k.name)))
          WHERE (k.source = 'document'::text)) x
  WHERE (NOT (EXISTS ( SELECT
           FROM mainspring.document d
          WHERE ((d.kind = x.name) AND (d.key = x.key)))))
UNION ALL
 SELECT 'an event is of a version that its document does not have yet'::text AS rule,
    ((e.kind || ' '::text) || e.key) AS detail
   FROM ((mainspring.event e
     JOIN mainspring.kind k ON (((k.name = e.kind) AND (k.source = 'document'::text))))
     JOIN mainspring.document d ON (((d.kind = e.kind) AND (d.key = e.key))))
  WHERE ((e.what = 'saved'::text) AND (e.entity_version > d.version))
UNION ALL
 SELECT 'a delivery has no event'::text AS rule,
    ((((d.kind || '!'::text) || d.consumer) || ' '::text) || d.key) AS detail
   FROM mainspring.delivery d
  WHERE (NOT (EXISTS ( SELECT
           FROM mainspring.event e
          WHERE ((e.shard = d.shard) AND (e.kind = d.kind) AND (e.key = d.key) AND (e.number = d.number)))))
UNION ALL
 SELECT 'an event waits for nobody'::text AS rule,
    ((e.kind || ' '::text) || e.key) AS detail
   FROM mainspring.event e
  WHERE (NOT (EXISTS ( SELECT
           FROM (mainspring.consumer c
             JOIN mainspring.delivery d ON (((d.shard = e.shard) AND (d.kind = e.kind) AND (d.consumer = c.name) AND (d.key = e.key) AND (d.number = e.number))))
          WHERE (c.kind = e.kind))))
UNION ALL
 SELECT 'a delivery has no visit that would make it'::text AS rule,
    ((((d.kind || '!'::text) || d.consumer) || ' '::text) || d.key) AS detail
   FROM mainspring.delivery d
  WHERE (NOT (EXISTS ( SELECT
           FROM mainspring.visit v
          WHERE ((v.shard = d.shard) AND (v.key = d.key) AND (v.queue = ((d.kind || '!'::text) || d.consumer))))))
UNION ALL
 SELECT 'an admitted firing has no run visit'::text AS rule,
    t.task AS detail
   FROM mainspring.reactive_task t
  WHERE ((t.firing IS NOT NULL) AND (t.admitted_at IS NOT NULL) AND (NOT (EXISTS ( SELECT
           FROM mainspring.visit v
          WHERE ((v.key = t.task) AND (v.queue = ('mainspring.run.'::text || t.pool)) AND ((v.payload ->> 'firing'::text) = (t.firing)::text))))))
UNION ALL
 SELECT 'a pool has more admitted firings than its cap'::text AS rule,
    p.pool AS detail
   FROM mainspring.reactive_pool p
  WHERE (p.cap < ( SELECT count(*) AS count
           FROM mainspring.reactive_task t
          WHERE ((t.pool = p.pool) AND (t.admitted_at IS NOT NULL))))
UNION ALL
 SELECT 'a param that a trigger names is not in the index, or one that it does not name is'::text AS rule,
    t.task AS detail
   FROM (mainspring.reactive_task t
     JOIN mainspring.definition d ON ((d.fingerprint = t.fingerprint)))
  WHERE (ARRAY( SELECT u.param
           FROM mainspring.uses u
          WHERE (u.task = t.task)
          ORDER BY u.param) IS DISTINCT FROM ARRAY( SELECT DISTINCT ((((p.x ->> 0) || '.'::text) || (p.x ->> 1)) COLLATE "C")
           FROM ( SELECT jsonb_path_query(d.tree, '$.**."param"'::jsonpath) AS jsonb_path_query
                UNION ALL
                 SELECT jsonb_path_query(d.tree, '$.**."behind"'::jsonpath) AS jsonb_path_query) p(x)
          ORDER BY ((((p.x ->> 0) || '.'::text) || (p.x ->> 1)) COLLATE "C")))
UNION ALL
 SELECT 'the newest change of a param is not its value'::text AS rule,
    p.name AS detail
   FROM (mainspring.param p
     JOIN LATERAL ( SELECT l_1.num,
            l_1.ver
           FROM mainspring.param_log l_1
          WHERE (l_1.param = p.name)
          ORDER BY l_1.id DESC
         LIMIT 1) l ON (true))
  WHERE ((l.num IS DISTINCT FROM p.num) OR (l.ver IS DISTINCT FROM p.ver));

ALTER TABLE mainspring.param_log ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mainspring.param_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE mainspring.param_rewind (
    param text NOT NULL COLLATE pg_catalog."C",
    number integer NOT NULL,
    num bigint,
    ver text,
    old_num bigint,
    old_ver text,
    chunks bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    changed_by text,
    why text,
    at timestamp with time zone NOT NULL
);

CREATE TABLE mainspring.parked_task (
    task uuid NOT NULL,
    process_id uuid NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    actor text NOT NULL COLLATE pg_catalog."C",
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    error_type text,
    error text,
    parked_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
);

CREATE TABLE mainspring.process (
    id uuid NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    state mainspring.process_state DEFAULT 'open'::mainspring.process_state NOT NULL,
    root uuid NOT NULL,
    root_closed boolean DEFAULT false NOT NULL,
    generation integer DEFAULT 0 NOT NULL,
    inconsistent_at timestamp with time zone,
    inconsistent text,
    closing_at timestamp with time zone,
    start jsonb NOT NULL,
    attrs jsonb DEFAULT '{}'::jsonb NOT NULL,
    parent_process uuid,
    parent_task uuid,
    parent_generation integer,
    horizon bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    ended_at timestamp with time zone,
    engine text DEFAULT 'mainspring.process'::text NOT NULL COLLATE pg_catalog."C",
    thinned boolean DEFAULT false NOT NULL,
    cancelling_at timestamp with time zone,
    look_at timestamp with time zone,
    CONSTRAINT process_key_check CHECK (((key <> ''::text) AND (octet_length(key) <= 1024)))
)
WITH (fillfactor='80');

CREATE TABLE mainspring.process_lock (
    no bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    process_id uuid NOT NULL,
    task uuid NOT NULL,
    generation integer NOT NULL,
    scope_id uuid NOT NULL,
    asked_at timestamp with time zone NOT NULL,
    held_at timestamp with time zone
);

CREATE TABLE mainspring.scope (
    id uuid NOT NULL,
    process_id uuid NOT NULL,
    parent uuid,
    opened_by uuid NOT NULL,
    state mainspring.scope_state DEFAULT 'open'::mainspring.scope_state NOT NULL,
    on_error jsonb,
    promise uuid,
    error jsonb,
    deadline_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    name text COLLATE pg_catalog."C"
);

CREATE TABLE mainspring.task (
    process_id uuid NOT NULL,
    id uuid NOT NULL,
    created_by uuid,
    creator_generation integer DEFAULT 0 NOT NULL,
    promise uuid NOT NULL,
    actor text NOT NULL COLLATE pg_catalog."C",
    state mainspring.task_state DEFAULT 'open'::mainspring.task_state NOT NULL,
    edges integer DEFAULT 0 NOT NULL,
    waits integer DEFAULT 0 NOT NULL,
    args jsonb NOT NULL,
    args_version integer DEFAULT 1 NOT NULL,
    options jsonb,
    outcome mainspring.promise_outcome,
    result jsonb,
    error jsonb,
    generation integer DEFAULT 0 NOT NULL,
    scope_id uuid,
    undo jsonb,
    step bigint DEFAULT 0 NOT NULL,
    done_no bigint,
    outcome_no bigint,
    created_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    changed_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
)
PARTITION BY RANGE (process_id);

CREATE VIEW mainspring.process_lock_live AS
 SELECT l.no,
    l.name,
    l.process_id,
    l.task,
    l.generation,
    l.scope_id,
    l.asked_at,
    l.held_at,
    p.type,
    p.key,
    s.parent,
    ((s.state <> 'open'::mainspring.scope_state) OR (p.cancelling_at IS NOT NULL)) AS is_ending
   FROM ((((mainspring.process_lock l
     JOIN mainspring.process p ON (((p.id = l.process_id) AND (p.state = 'open'::mainspring.process_state))))
     JOIN mainspring.task t ON (((t.process_id = l.process_id) AND (t.id = l.task) AND (t.generation = l.generation))))
     JOIN mainspring.scope s ON ((s.id = l.scope_id)))
     JOIN mainspring.task r ON (((r.process_id = l.process_id) AND (r.id = s.promise))))
  WHERE
        CASE
            WHEN (l.held_at IS NULL) THEN (t.state = 'external'::mainspring.task_state)
            ELSE ((t.state = ANY (ARRAY['external'::mainspring.task_state, 'done'::mainspring.task_state])) AND ((r.outcome IS NULL) OR ((s.state = 'undoing'::mainspring.scope_state) AND (p.cancelling_at IS NOT NULL))))
        END;

ALTER TABLE mainspring.process_lock ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mainspring.process_lock_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE mainspring.wait (
    task uuid NOT NULL,
    process_id uuid NOT NULL,
    n integer NOT NULL
)
WITH (fillfactor='50');

CREATE VIEW mainspring.process_orphan AS
 SELECT 'I12'::text AS rule,
    'a visit has no task'::text AS detail,
    ((v.payload ->> '@'::text))::uuid AS process_id,
    v.key AS subject
   FROM mainspring.visit v
  WHERE ((v.payload ? '@'::text) AND (v.key !~ '/'::text) AND (NOT (EXISTS ( SELECT
           FROM mainspring.task t
          WHERE ((t.process_id = ((v.payload ->> '@'::text))::uuid) AND (t.id = (v.key)::uuid))))))
UNION ALL
 SELECT 'I12'::text AS rule,
    'a task has no process'::text AS detail,
    t.process_id,
    (t.id)::text AS subject
   FROM mainspring.task t
  WHERE (NOT (EXISTS ( SELECT
           FROM mainspring.process p
          WHERE (p.id = t.process_id))))
UNION ALL
 SELECT 'I12'::text AS rule,
    'an edge has no task'::text AS detail,
    e.process_id,
    (e.task)::text AS subject
   FROM mainspring.edge e
  WHERE (NOT (EXISTS ( SELECT
           FROM mainspring.task t
          WHERE ((t.process_id = e.process_id) AND (t.id = e.task)))))
UNION ALL
 SELECT 'I12'::text AS rule,
    'a count has no task'::text AS detail,
    w.process_id,
    (w.task)::text AS subject
   FROM mainspring.wait w
  WHERE (NOT (EXISTS ( SELECT
           FROM mainspring.task t
          WHERE ((t.process_id = w.process_id) AND (t.id = w.task)))));

CREATE TABLE mainspring.process_type (
    name text NOT NULL COLLATE pg_catalog."C",
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    declared jsonb DEFAULT '{}'::jsonb NOT NULL,
    changed_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
);

CREATE TABLE mainspring.signal (
    process_id uuid NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    no bigint NOT NULL,
    payload jsonb,
    sent_by text DEFAULT ''::text NOT NULL,
    sent_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    taken_by uuid,
    taken_generation integer,
    again boolean DEFAULT false NOT NULL,
    CONSTRAINT signal_id_check CHECK (((id <> ''::text) AND (octet_length(id) <= 200))),
    CONSTRAINT signal_name_check CHECK (((name <> ''::text) AND (octet_length(name) <= 200)))
);

CREATE VIEW mainspring.task_view AS
 SELECT t.process_id,
    t.id,
    t.created_by,
    t.creator_generation,
    t.promise,
    t.actor,
    t.state,
    t.waits,
    t.outcome,
    t.generation,
    t.done_no,
    t.outcome_no,
    t.options,
    t.changed_at,
        CASE
            WHEN ("left"(t.actor, 1) = '@'::text) THEN 'mainspring.process'::text
            ELSE t.actor
        END AS queue,
    COALESCE(e.inputs, (0)::bigint) AS inputs,
    COALESCE(e.open_inputs, (0)::bigint) AS open_inputs,
    COALESCE(e.stopping, (0)::bigint) AS stopping,
    COALESCE(e.gone, (0)::bigint) AS gone,
    e.last_no,
    w.n AS wait_n,
    (v.key IS NOT NULL) AS has_visit,
    (v.parked_at IS NOT NULL) AS is_parked,
    v.due_at,
    v.pass,
    v.held_until,
        CASE
            WHEN (t.actor = '@some_of'::text) THEN (COALESCE(((t.args ->> 'need'::text))::integer, 1) -
            CASE
                WHEN (t.args ? 'ends'::text) THEN (e.inputs - e.open_inputs)
                ELSE e.kept
            END)
            ELSE NULL::bigint
        END AS need
   FROM (((mainspring.task t
     LEFT JOIN ( SELECT e_1.process_id,
            e_1.task,
            count(*) FILTER (WHERE (e_1.kind <> 'handle'::mainspring.edge_kind)) AS inputs,
            count(*) FILTER (WHERE ((e_1.kind <> 'handle'::mainspring.edge_kind) AND (p.id IS NOT NULL) AND (p.outcome IS NULL))) AS open_inputs,
            count(*) FILTER (WHERE ((e_1.kind = ANY (ARRAY['value'::mainspring.edge_kind, 'order'::mainspring.edge_kind])) AND (p.outcome = 'err'::mainspring.promise_outcome))) AS stopping,
            count(*) FILTER (WHERE (p.id IS NULL)) AS gone,
            max(p.outcome_no) FILTER (WHERE (e_1.kind <> 'handle'::mainspring.edge_kind)) AS last_no,
            count(*) FILTER (WHERE ((e_1.kind <> 'handle'::mainspring.edge_kind) AND (p.outcome = 'ok'::mainspring.promise_outcome))) AS kept
           FROM (mainspring.edge e_1
             LEFT JOIN mainspring.task p ON (((p.process_id = e_1.process_id) AND (p.id = e_1.promise))))
          GROUP BY e_1.process_id, e_1.task) e ON (((e.process_id = t.process_id) AND (e.task = t.id))))
     LEFT JOIN mainspring.wait w ON (((w.process_id = t.process_id) AND (w.task = t.id))))
     LEFT JOIN mainspring.visit v ON (((v.key = (t.id)::text) AND
        CASE
            WHEN ("left"(t.actor, 1) = '@'::text) THEN ("left"(v.queue, 18) = 'mainspring.process'::text)
            ELSE (v.queue = t.actor)
        END)));

CREATE VIEW mainspring.process_violation AS
 SELECT r.rule,
    r.detail,
    t.process_id,
    t.id AS task
   FROM (mainspring.task_view t
     CROSS JOIN LATERAL ( VALUES ('I1'::text,'an open task has no visit and waits for nothing'::text,((t.state = 'open'::mainspring.task_state) AND (NOT t.has_visit) AND (t.open_inputs = 0))), ('I1'::text,'a task that waits has a visit'::text,((t.state = 'open'::mainspring.task_state) AND t.has_visit AND (t.open_inputs > 0) AND (t.stopping = 0) AND (NOT ((t.actor = ANY (ARRAY['@first_of'::text, '@some_of'::text])) AND (t.open_inputs < t.inputs))))), ('I1'::text,'an external task has a visit'::text,((t.state = 'external'::mainspring.task_state) AND t.has_visit)), ('I1'::text,'a parked task has no visit'::text,((t.state = 'parked'::mainspring.task_state) AND (NOT t.has_visit))), ('I1'::text,'a task that has ended has a visit or a count'::text,((t.state = ANY (ARRAY['done'::mainspring.task_state, 'cancelled'::mainspring.task_state, 'superseded'::mainspring.task_state])) AND (t.has_visit OR (t.wait_n IS NOT NULL)))), ('I2'::text,'a count is not the number of open inputs'::text,((t.state = 'open'::mainspring.task_state) AND (NOT t.has_visit) AND (t.open_inputs > 0) AND (t.stopping = 0) AND (t.actor <> ALL (ARRAY['@first_of'::text, '@some_of'::text])) AND (NOT ((t.waits = 1) AND (t.open_inputs = 1) AND (t.wait_n IS NULL))) AND (t.wait_n IS DISTINCT FROM t.open_inputs))), ('I2'::text,'a first_of waits although an input is closed'::text,((t.state = 'open'::mainspring.task_state) AND (NOT t.has_visit) AND (t.actor = '@first_of'::text) AND (t.open_inputs > 0) AND ((t.open_inputs < t.inputs) OR ((t.waits > 1) AND (t.wait_n IS DISTINCT FROM 1))))), ('I2'::text,'a race waits for no end, or for more than would decide it'::text,((t.state = 'open'::mainspring.task_state) AND (NOT t.has_visit) AND (t.actor = '@some_of'::text) AND (t.open_inputs > 0) AND ((t.need IS NULL) OR ((COALESCE(t.wait_n,
                CASE
                    WHEN (t.waits = 1) THEN 1
                    ELSE NULL::integer
                END, 0) < 1) OR (COALESCE(t.wait_n,
                CASE
                    WHEN (t.waits = 1) THEN 1
                    ELSE NULL::integer
                END, 0) > LEAST(t.open_inputs, t.need)))))), ('I3'::text,'a task waits although an error stops it'::text,((t.state = 'open'::mainspring.task_state) AND (NOT t.has_visit) AND (t.stopping > 0))), ('I11'::text,'a task is done and its input is open or closed later'::text,((t.state = 'done'::mainspring.task_state) AND (t.stopping = 0) AND (t.actor <> ALL (ARRAY['@first_of'::text, '@some_of'::text])) AND ((t.open_inputs > 0) OR (t.last_no > t.done_no)))), ('I12'::text,'an input is gone'::text,((t.gone > 0) AND (t.state <> 'superseded'::mainspring.task_state)))) r(rule, detail, is_broken))
  WHERE r.is_broken
UNION ALL
 SELECT 'I1'::text AS rule,
    'an external task has nothing that it waits for'::text AS detail,
    t.process_id,
    t.id AS task
   FROM mainspring.task t
  WHERE ((t.state = 'external'::mainspring.task_state) AND (NOT (EXISTS ( SELECT
           FROM mainspring.external x
          WHERE ((x.process_id = t.process_id) AND (x.task = t.id))))))
UNION ALL
 SELECT 'I1'::text AS rule,
    'a task that has ended waits outside or is listed as parked'::text AS detail,
    x.process_id,
    x.task
   FROM (mainspring.external x
     JOIN mainspring.task t ON (((t.process_id = x.process_id) AND (t.id = x.task))))
  WHERE (t.state <> 'external'::mainspring.task_state)
UNION ALL
 SELECT 'I1'::text AS rule,
    'a task that has ended waits outside or is listed as parked'::text AS detail,
    k.process_id,
    k.task
   FROM (mainspring.parked_task k
     JOIN mainspring.task t ON (((t.process_id = k.process_id) AND (t.id = k.task))))
  WHERE (t.state = ANY (ARRAY['done'::mainspring.task_state, 'cancelled'::mainspring.task_state, 'superseded'::mainspring.task_state]))
UNION ALL
 SELECT 'I1'::text AS rule,
    'a task sleeps and has no timer'::text AS detail,
    x.process_id,
    x.task
   FROM mainspring.external x
  WHERE ((x.due_at IS NOT NULL) AND (NOT (EXISTS ( SELECT
           FROM mainspring.visit v
          WHERE ((v.key = ('timer/'::text || (x.task)::text)) AND ("left"(v.queue, 18) = 'mainspring.process'::text))))))
UNION ALL
 SELECT 'I1'::text AS rule,
    'a task waits for a child that has ended'::text AS detail,
    x.process_id,
    x.task
   FROM mainspring.external x
  WHERE ((x.kind = 'child'::mainspring.external_kind) AND (NOT (EXISTS ( SELECT
           FROM mainspring.process c
          WHERE ((c.id = x.child) AND (c.state = 'open'::mainspring.process_state))))) AND (NOT (EXISTS ( SELECT
           FROM mainspring.visit v
          WHERE ((v.key = ('child/'::text || (x.task)::text)) AND ("left"(v.queue, 18) = 'mainspring.process'::text))))))
UNION ALL
 SELECT 'I4'::text AS rule,
        CASE
            WHEN ((t.state = 'done'::mainspring.task_state) AND (t.result IS NOT NULL)) THEN 'a result was accepted and its promise is open'::text
            ELSE 'an open promise has not exactly one live task that fulfils it'::text
        END AS detail,
    t.process_id,
    t.id AS task
   FROM (mainspring.task t
     JOIN mainspring.process p ON ((p.id = t.process_id)))
  WHERE ((p.state = 'open'::mainspring.process_state) AND (t.outcome IS NULL) AND (t.promise = t.id) AND (t.state = ANY (ARRAY['done'::mainspring.task_state, 'cancelled'::mainspring.task_state])) AND (NOT (EXISTS ( SELECT
           FROM mainspring.task f
          WHERE ((f.process_id = t.process_id) AND (f.promise = t.id) AND (f.state = ANY (ARRAY['open'::mainspring.task_state, 'external'::mainspring.task_state, 'parked'::mainspring.task_state])))))))
UNION ALL
 SELECT 'I4'::text AS rule,
    'an open promise has not exactly one live task that fulfils it'::text AS detail,
    t.process_id,
    t.promise AS task
   FROM mainspring.task t
  WHERE (t.state = ANY (ARRAY['open'::mainspring.task_state, 'external'::mainspring.task_state, 'parked'::mainspring.task_state]))
  GROUP BY t.process_id, t.promise
 HAVING (count(*) > 1)
UNION ALL
 SELECT 'I4'::text AS rule,
    'a closed promise has a live task that would fulfil it'::text AS detail,
    t.process_id,
    t.id AS task
   FROM (mainspring.task t
     JOIN mainspring.task p ON (((p.process_id = t.process_id) AND (p.id = t.promise))))
  WHERE ((t.state = ANY (ARRAY['open'::mainspring.task_state, 'external'::mainspring.task_state, 'parked'::mainspring.task_state])) AND (p.outcome IS NOT NULL))
UNION ALL
 SELECT 'I7'::text AS rule,
    'a task was made by none that is done, or by an earlier generation'::text AS detail,
    t.process_id,
    t.id AS task
   FROM (mainspring.task t
     JOIN mainspring.task c ON (((c.process_id = t.process_id) AND (c.id = t.created_by))))
  WHERE ((t.state <> 'superseded'::mainspring.task_state) AND ((c.state <> 'done'::mainspring.task_state) OR (c.generation <> t.creator_generation)))
UNION ALL
 SELECT 'I8'::text AS rule,
    'a process has ended with a live task or an open root'::text AS detail,
    p.id AS process_id,
    p.root AS task
   FROM mainspring.process p
  WHERE ((p.state <> 'open'::mainspring.process_state) AND ((EXISTS ( SELECT
           FROM mainspring.task t
          WHERE ((t.process_id = p.id) AND (t.state = ANY (ARRAY['open'::mainspring.task_state, 'external'::mainspring.task_state, 'parked'::mainspring.task_state]))))) OR (EXISTS ( SELECT
           FROM mainspring.task t
          WHERE ((t.process_id = p.id) AND (t.id = p.root) AND (t.outcome IS NULL))))))
UNION ALL
 SELECT 'I8'::text AS rule,
    'a process is open and all of it has ended'::text AS detail,
    p.id AS process_id,
    p.root AS task
   FROM (mainspring.process p
     JOIN mainspring.task r ON (((r.process_id = p.id) AND (r.id = p.root))))
  WHERE ((p.state = 'open'::mainspring.process_state) AND (r.outcome IS NOT NULL) AND (NOT (EXISTS ( SELECT
           FROM mainspring.task t
          WHERE ((t.process_id = p.id) AND (t.state = ANY (ARRAY['open'::mainspring.task_state, 'external'::mainspring.task_state, 'parked'::mainspring.task_state])) AND (COALESCE((t.options ->> 'daemon'::text), ''::text) <> 'true'::text) AND (t.actor <> ALL (ARRAY['@signal'::text, '@sleep'::text, '@gather'::text, '@concat'::text, '@first_of'::text, '@some_of'::text, '@call_off'::text, '@every'::text, '@answer'::text, '@pass_on'::text])))))) AND (NOT (EXISTS ( SELECT
           FROM mainspring.visit v
          WHERE ((v.key = ANY (ARRAY[('look/'::text || (p.id)::text), ('end/'::text || (p.id)::text)])) AND ("left"(v.queue, 18) = 'mainspring.process'::text) AND (v.parked_at IS NULL) AND ((v.due_at <= mainspring.now()) OR (v.attempt > 0)))))))
UNION ALL
 SELECT 'I12'::text AS rule,
        CASE
            WHEN (EXISTS ( SELECT
               FROM mainspring.task t
              WHERE (t.process_id = p.id))) THEN 'the first task is gone'::text
            ELSE 'a process has no first task'::text
        END AS detail,
    p.id AS process_id,
    p.root AS task
   FROM mainspring.process p
  WHERE ((p.state = 'open'::mainspring.process_state) AND (NOT (EXISTS ( SELECT
           FROM mainspring.task t
          WHERE ((t.process_id = p.id) AND (t.id = p.root))))))
UNION ALL
 SELECT 'I13'::text AS rule,
    'a signal was taken by a task that is not done, or by two'::text AS detail,
    s.process_id,
    s.taken_by AS task
   FROM (mainspring.signal s
     JOIN mainspring.task t ON (((t.process_id = s.process_id) AND (t.id = s.taken_by))))
  WHERE ((t.state <> ALL (ARRAY['done'::mainspring.task_state, 'cancelled'::mainspring.task_state, 'superseded'::mainspring.task_state])) OR (t.generation <> s.taken_generation) OR (EXISTS ( SELECT
           FROM mainspring.signal o
          WHERE ((o.process_id = s.process_id) AND (o.taken_by = s.taken_by) AND (o.no <> s.no)))));

CREATE TABLE mainspring.produces (
    param text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C"
);

CREATE UNLOGGED TABLE mainspring.progress (
    id uuid NOT NULL,
    attempt integer NOT NULL,
    done double precision NOT NULL,
    note text,
    changed_at timestamp with time zone NOT NULL,
    CONSTRAINT progress_done_check CHECK (((done >= (0)::double precision) AND (done <= (1)::double precision)))
)
WITH (fillfactor='70');

CREATE TABLE mainspring.reach (
    worker_id uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    priority smallint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    key text COLLATE pg_catalog."C"
);

CREATE TABLE mainspring.reactive_ended (
    pool text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    params text[] NOT NULL,
    at timestamp with time zone NOT NULL
);

CREATE TABLE mainspring.reactive_instance (
    id uuid NOT NULL,
    release bigint NOT NULL,
    pool text NOT NULL COLLATE pg_catalog."C",
    seen_at timestamp with time zone NOT NULL
);

CREATE VIEW mainspring.reactive_load AS
 SELECT pool,
    count(*) AS tasks,
    count(*) FILTER (WHERE ((firing IS NOT NULL) AND (admitted_at IS NULL))) AS ready,
    count(*) FILTER (WHERE (admitted_at IS NOT NULL)) AS running,
    count(*) FILTER (WHERE (failures > 0)) AS failing,
    count(*) FILTER (WHERE (missed_at IS NOT NULL)) AS missed,
    count(*) FILTER (WHERE (paused_at IS NOT NULL)) AS paused,
    count(*) FILTER (WHERE (retired_at IS NOT NULL)) AS retired,
    COALESCE((EXTRACT(epoch FROM (mainspring.clock() - min(fired_at) FILTER (WHERE (admitted_at IS NULL)))))::double precision, (0)::double precision) AS oldest_ready_seconds
   FROM mainspring.reactive_task t
  GROUP BY pool;

CREATE TABLE mainspring.reactive_release (
    number bigint NOT NULL,
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    tasks text[] NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE mainspring.reactive_release ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mainspring.reactive_release_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE mainspring.recurring (
    name text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    cron text NOT NULL,
    zone text DEFAULT 'UTC'::text NOT NULL,
    payload jsonb NOT NULL,
    priority smallint DEFAULT 5 NOT NULL,
    paused_at timestamp with time zone,
    last_at timestamp with time zone,
    last_id uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    target text COLLATE pg_catalog."C",
    grp text COLLATE pg_catalog."C",
    catch_up text DEFAULT 'one'::text NOT NULL,
    catch_up_max integer DEFAULT 100 NOT NULL,
    tick_argument text,
    declared jsonb,
    changed_by text,
    revision bigint DEFAULT 0 NOT NULL,
    paused_until timestamp with time zone,
    pause_reason text,
    make_up text,
    CONSTRAINT recurring_catch_up_check CHECK ((catch_up = ANY (ARRAY['skip'::text, 'one'::text, 'all'::text]))),
    CONSTRAINT recurring_catch_up_max_check CHECK (((catch_up_max >= 1) AND (catch_up_max <= 10000))),
    CONSTRAINT recurring_make_up_check CHECK ((make_up = ANY (ARRAY['one'::text, 'all'::text])))
);

CREATE TABLE mainspring.redaction (
    queue text NOT NULL COLLATE pg_catalog."C",
    fields text[] NOT NULL COLLATE pg_catalog."C",
    result boolean DEFAULT false NOT NULL,
    changed_at timestamp with time zone NOT NULL
);

CREATE TABLE mainspring.repair (
    id bigint NOT NULL,
    process_id uuid NOT NULL,
    task uuid,
    rule text NOT NULL,
    detail text DEFAULT ''::text NOT NULL,
    source text DEFAULT 'automatic'::text NOT NULL,
    repaired_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
);

ALTER TABLE mainspring.repair ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mainspring.repair_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE mainspring.retention (
    queue text NOT NULL COLLATE pg_catalog."C",
    keep_result interval,
    keep_history interval,
    dropped_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    dropped_run bigint DEFAULT 0 NOT NULL,
    begun_on date DEFAULT '-infinity'::date NOT NULL,
    CONSTRAINT retention_keep_history_check CHECK ((keep_history > '00:00:00'::interval)),
    CONSTRAINT retention_keep_result_check CHECK ((keep_result > '00:00:00'::interval))
);

CREATE TABLE mainspring.secret (
    number integer NOT NULL,
    secret bytea DEFAULT decode(replace(((gen_random_uuid())::text || (gen_random_uuid())::text), '-'::text, ''::text), 'hex'::text) NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT secret_secret_check CHECK ((octet_length(secret) = 32))
);

CREATE TABLE mainspring.setting_change (
    id bigint NOT NULL,
    subject text NOT NULL,
    source text NOT NULL,
    before jsonb NOT NULL,
    after jsonb NOT NULL,
    changed_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
);

ALTER TABLE mainspring.setting_change ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mainspring.setting_change_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE mainspring.signal ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME mainspring.signal_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE mainspring.sleeper (
    queue text NOT NULL COLLATE pg_catalog."C",
    id uuid NOT NULL,
    until timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE mainspring.source_offset (
    source text NOT NULL COLLATE pg_catalog."C",
    partition text NOT NULL COLLATE pg_catalog."C",
    next bigint DEFAULT 0 NOT NULL,
    reached bigint DEFAULT 0 NOT NULL,
    start text,
    known_end bigint,
    looked_at timestamp with time zone,
    moved_at timestamp with time zone,
    found_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    CONSTRAINT source_offset_next_check CHECK ((next >= 0))
)
WITH (fillfactor='50');

CREATE TABLE mainspring.source_reject (
    source text NOT NULL COLLATE pg_catalog."C",
    partition text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    topic text NOT NULL,
    key bytea,
    value bytea,
    headers bytea NOT NULL,
    happened_ms bigint NOT NULL,
    error_type text NOT NULL,
    error text NOT NULL,
    rejected_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    retry_at timestamp with time zone
);

CREATE TABLE mainspring.task_other (
    process_id uuid CONSTRAINT task_process_id_not_null NOT NULL,
    id uuid CONSTRAINT task_id_not_null NOT NULL,
    created_by uuid,
    creator_generation integer DEFAULT 0 CONSTRAINT task_creator_generation_not_null NOT NULL,
    promise uuid CONSTRAINT task_promise_not_null NOT NULL,
    actor text CONSTRAINT task_actor_not_null NOT NULL COLLATE pg_catalog."C",
    state mainspring.task_state DEFAULT 'open'::mainspring.task_state CONSTRAINT task_state_not_null NOT NULL,
    edges integer DEFAULT 0 CONSTRAINT task_edges_not_null NOT NULL,
    waits integer DEFAULT 0 CONSTRAINT task_waits_not_null NOT NULL,
    args jsonb CONSTRAINT task_args_not_null NOT NULL,
    args_version integer DEFAULT 1 CONSTRAINT task_args_version_not_null NOT NULL,
    options jsonb,
    outcome mainspring.promise_outcome,
    result jsonb,
    error jsonb,
    generation integer DEFAULT 0 CONSTRAINT task_generation_not_null NOT NULL,
    scope_id uuid,
    undo jsonb,
    step bigint DEFAULT 0 CONSTRAINT task_step_not_null NOT NULL,
    done_no bigint,
    outcome_no bigint,
    created_at timestamp with time zone DEFAULT mainspring.now() CONSTRAINT task_created_at_not_null NOT NULL,
    changed_at timestamp with time zone DEFAULT mainspring.now() CONSTRAINT task_changed_at_not_null NOT NULL
)
WITH (fillfactor='60');

CREATE TABLE mainspring.template (
    name text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    filter jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_by text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone DEFAULT mainspring.now() NOT NULL,
    terms jsonb
);

CREATE VIEW mainspring.violation AS
 SELECT visit_violations.rule,
    visit_violations.detail
   FROM mainspring.visit_violations(NULL::text, NULL::text) visit_violations(rule, detail)
UNION ALL
 SELECT history_violations.rule,
    history_violations.detail
   FROM mainspring.history_violations(NULL::date) history_violations(rule, detail)
UNION ALL
 SELECT other_violation.rule,
    other_violation.detail
   FROM mainspring.other_violation;

CREATE VIEW mainspring.visit_status AS
 SELECT v.queue,
    v.key,
    v.id,
    v.grp,
    v.priority,
    (
        CASE
            WHEN (v.parked_at IS NOT NULL) THEN 'parked'::text
            WHEN (v.pass IS NOT NULL) THEN 'running'::text
            WHEN (v.due_at > mainspring.now()) THEN 'scheduled'::text
            ELSE 'waiting'::text
        END)::mainspring.visit_state AS state,
    v.due_at,
        CASE
            WHEN (v.parked_at IS NULL) THEN (LEAST(v.attempt, 2147483646) + 1)
            ELSE GREATEST(1, v.attempt)
        END AS attempt,
    v.crashes,
    v.work_timeouts,
    v.holder,
        CASE
            WHEN (l.worker_id <> '00000000-0000-0000-0000-000000000000'::uuid) THEN l.worker_id
            ELSE ( SELECT b.worker_id
               FROM (mainspring.band n
                 JOIN mainspring.lease b ON (((b.pool = n.name) AND (b.shard = v.shard))))
              WHERE ((n.pool = q.pool) AND (n.queues @> ARRAY[v.queue]))
             LIMIT 1)
        END AS leased_by,
    v.started_at,
    v.held_until,
        CASE
            WHEN (v.called_off IS NULL) THEN v.expires_at
            ELSE NULL::timestamp with time zone
        END AS expires_at,
    v.parked_at,
    v.offered_while_parked,
    v.error,
    v.payload,
    v.created_at,
    v.changed_at,
    v.shard,
    v.called_off
   FROM ((mainspring.visit v
     LEFT JOIN mainspring.queue q ON ((q.name = v.queue)))
     LEFT JOIN mainspring.lease l ON (((l.pool = q.pool) AND (l.shard = v.shard))));

CREATE TABLE mainspring.worker_cipher (
    worker_id uuid NOT NULL,
    keys text[] NOT NULL
);

ALTER TABLE ONLY mainspring.edge ATTACH PARTITION mainspring.edge_other DEFAULT;

ALTER TABLE ONLY mainspring.event_kept ATTACH PARTITION mainspring.event_kept_other DEFAULT;

ALTER TABLE ONLY mainspring.history_bundle ATTACH PARTITION mainspring.history_bundle_other DEFAULT;

ALTER TABLE ONLY mainspring.history_run ATTACH PARTITION mainspring.history_other DEFAULT;

ALTER TABLE ONLY mainspring.task ATTACH PARTITION mainspring.task_other DEFAULT;

ALTER TABLE ONLY mainspring.api_token
    ADD CONSTRAINT api_token_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.band
    ADD CONSTRAINT band_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.blame
    ADD CONSTRAINT blame_pkey PRIMARY KEY (worker_id, shard, key, queue);

ALTER TABLE ONLY mainspring.breaker
    ADD CONSTRAINT breaker_pkey PRIMARY KEY (queue, grp);

ALTER TABLE ONLY mainspring.captured
    ADD CONSTRAINT captured_pkey PRIMARY KEY (relid, kind);

ALTER TABLE ONLY mainspring.consumer
    ADD CONSTRAINT consumer_pkey PRIMARY KEY (kind, name);

ALTER TABLE ONLY mainspring.counter
    ADD CONSTRAINT counter_pkey PRIMARY KEY (actor, name, minute);

ALTER TABLE ONLY mainspring.death
    ADD CONSTRAINT death_pkey PRIMARY KEY (worker_id);

ALTER TABLE ONLY mainspring.definition
    ADD CONSTRAINT definition_pkey PRIMARY KEY (fingerprint);

ALTER TABLE ONLY mainspring.delivery
    ADD CONSTRAINT delivery_pkey PRIMARY KEY (shard, kind, consumer, key, number);

ALTER TABLE ONLY mainspring.document
    ADD CONSTRAINT document_pkey PRIMARY KEY (kind, key);

ALTER TABLE ONLY mainspring.edge
    ADD CONSTRAINT edge_pkey PRIMARY KEY (process_id, promise, task);

ALTER TABLE ONLY mainspring.edge_other
    ADD CONSTRAINT edge_other_pkey PRIMARY KEY (process_id, promise, task);

ALTER TABLE ONLY mainspring.entry
    ADD CONSTRAINT entry_pkey PRIMARY KEY (queue, role);

ALTER TABLE ONLY mainspring.evaluation
    ADD CONSTRAINT evaluation_pkey PRIMARY KEY (task, id);

ALTER TABLE ONLY mainspring.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (shard, kind, key, number);

ALTER TABLE mainspring.event
    ADD CONSTRAINT event_what_check CHECK ((what = ANY (ARRAY['saved'::text, 'state'::text, 'deleted'::text, 'snapshot'::text]))) NOT VALID;

ALTER TABLE ONLY mainspring.external
    ADD CONSTRAINT external_pkey PRIMARY KEY (task);

ALTER TABLE ONLY mainspring.history_run
    ADD CONSTRAINT history_pkey PRIMARY KEY (key, run, day);

ALTER TABLE ONLY mainspring.history_other
    ADD CONSTRAINT history_other_pkey PRIMARY KEY (key, run, day);

ALTER TABLE ONLY mainspring.install
    ADD CONSTRAINT install_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.kind
    ADD CONSTRAINT kind_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (pool, shard);

ALTER TABLE ONLY mainspring.leaving
    ADD CONSTRAINT leaving_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);

ALTER TABLE ONLY mainspring.operation_item
    ADD CONSTRAINT operation_item_pkey PRIMARY KEY (operation_id, number);

ALTER TABLE ONLY mainspring.operation
    ADD CONSTRAINT operation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.param_log
    ADD CONSTRAINT param_log_pkey PRIMARY KEY (param, id);

ALTER TABLE ONLY mainspring.param
    ADD CONSTRAINT param_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.param_rewind
    ADD CONSTRAINT param_rewind_pkey PRIMARY KEY (param, number);

ALTER TABLE ONLY mainspring.parked_task
    ADD CONSTRAINT parked_task_pkey PRIMARY KEY (task);

ALTER TABLE ONLY mainspring.part
    ADD CONSTRAINT part_pkey PRIMARY KEY (queue, worker_id);

ALTER TABLE ONLY mainspring.process_lock
    ADD CONSTRAINT process_lock_once UNIQUE (task, generation);

ALTER TABLE ONLY mainspring.process_lock
    ADD CONSTRAINT process_lock_pkey PRIMARY KEY (no);

ALTER TABLE ONLY mainspring.process
    ADD CONSTRAINT process_one_per_key UNIQUE (type, key);

ALTER TABLE ONLY mainspring.process
    ADD CONSTRAINT process_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.process_type
    ADD CONSTRAINT process_type_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.produces
    ADD CONSTRAINT produces_pkey PRIMARY KEY (param, task);

ALTER TABLE ONLY mainspring.progress
    ADD CONSTRAINT progress_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.reactive_instance
    ADD CONSTRAINT reactive_instance_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.reactive_pool
    ADD CONSTRAINT reactive_pool_pkey PRIMARY KEY (pool);

ALTER TABLE ONLY mainspring.reactive_release
    ADD CONSTRAINT reactive_release_fingerprint_key UNIQUE (fingerprint);

ALTER TABLE ONLY mainspring.reactive_release
    ADD CONSTRAINT reactive_release_pkey PRIMARY KEY (number);

ALTER TABLE ONLY mainspring.reactive_task
    ADD CONSTRAINT reactive_task_pkey PRIMARY KEY (task);

ALTER TABLE ONLY mainspring.recurring
    ADD CONSTRAINT recurring_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.redaction
    ADD CONSTRAINT redaction_pkey PRIMARY KEY (queue);

ALTER TABLE ONLY mainspring.repair
    ADD CONSTRAINT repair_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.retention
    ADD CONSTRAINT retention_pkey PRIMARY KEY (queue);

ALTER TABLE ONLY mainspring.scope
    ADD CONSTRAINT scope_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.secret
    ADD CONSTRAINT secret_pkey PRIMARY KEY (number);

ALTER TABLE ONLY mainspring.setting_change
    ADD CONSTRAINT setting_change_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.signal
    ADD CONSTRAINT signal_pkey PRIMARY KEY (process_id, name, id);

ALTER TABLE ONLY mainspring.sleeper
    ADD CONSTRAINT sleeper_pkey PRIMARY KEY (queue, id);

ALTER TABLE ONLY mainspring.source_offset
    ADD CONSTRAINT source_offset_pkey PRIMARY KEY (source, partition);

ALTER TABLE ONLY mainspring.source_reject
    ADD CONSTRAINT source_reject_pkey PRIMARY KEY (source, partition, number);

ALTER TABLE ONLY mainspring.stage
    ADD CONSTRAINT stage_pkey PRIMARY KEY (kind, name);

ALTER TABLE ONLY mainspring.state
    ADD CONSTRAINT state_pkey PRIMARY KEY (shard, kind, key, stage);

ALTER TABLE ONLY mainspring.task
    ADD CONSTRAINT task_pkey PRIMARY KEY (process_id, id);

ALTER TABLE ONLY mainspring.task_other
    ADD CONSTRAINT task_other_pkey PRIMARY KEY (process_id, id);

ALTER TABLE ONLY mainspring.template
    ADD CONSTRAINT template_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.uses
    ADD CONSTRAINT uses_pkey PRIMARY KEY (param, task);

ALTER TABLE ONLY mainspring.visit
    ADD CONSTRAINT visit_pkey PRIMARY KEY (key, queue, shard);

ALTER TABLE ONLY mainspring.wait
    ADD CONSTRAINT wait_pkey PRIMARY KEY (task);

ALTER TABLE ONLY mainspring.worker_cipher
    ADD CONSTRAINT worker_cipher_pkey PRIMARY KEY (worker_id);

ALTER TABLE ONLY mainspring.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

CREATE UNIQUE INDEX api_token_san ON mainspring.api_token USING btree (san) WHERE (revoked_at IS NULL);

CREATE INDEX audit_at ON mainspring.audit USING btree (at);

CREATE INDEX breaker_open ON mainspring.breaker USING btree (queue, until DESC) WHERE ((opened_at IS NOT NULL) AND (grp <> ''::text));

CREATE INDEX edge_of_task ON ONLY mainspring.edge USING btree (process_id, task, pos);

CREATE INDEX edge_other_process_id_task_pos_idx ON mainspring.edge_other USING btree (process_id, task, pos);

CREATE INDEX evaluation_age ON mainspring.evaluation USING brin (at);

CREATE INDEX event_age ON mainspring.event USING btree (created_at);

CREATE INDEX event_kept_number ON ONLY mainspring.event_kept USING btree (kind, number);

CREATE INDEX event_kept_other_kind_number_idx ON mainspring.event_kept_other USING btree (kind, number);

CREATE INDEX external_of_process ON mainspring.external USING btree (process_id, name);

CREATE INDEX history_bundle_begin ON ONLY mainspring.history_bundle USING btree (queue, first_end, last_end);

CREATE INDEX history_bundle_end ON ONLY mainspring.history_bundle USING btree (queue, last_end, first_end);

CREATE INDEX history_bundle_ended ON ONLY mainspring.history_bundle USING brin (last_end) WITH (pages_per_range='32', autosummarize='on');

CREATE INDEX history_bundle_key ON ONLY mainspring.history_bundle USING btree (kin, last_key, first_key);

CREATE INDEX history_bundle_other_kin_last_key_first_key_idx ON mainspring.history_bundle_other USING btree (kin, last_key, first_key);

CREATE INDEX history_bundle_other_last_end_idx ON mainspring.history_bundle_other USING brin (last_end) WITH (pages_per_range='32', autosummarize='on');

CREATE INDEX history_bundle_other_queue_first_end_last_end_idx ON mainspring.history_bundle_other USING btree (queue, first_end, last_end);

CREATE INDEX history_bundle_other_queue_last_end_first_end_idx ON mainspring.history_bundle_other USING btree (queue, last_end, first_end);

CREATE INDEX history_ended ON ONLY mainspring.history_run USING brin (ended_at) WITH (pages_per_range='32', autosummarize='on');

CREATE INDEX history_failed ON ONLY mainspring.history_run USING btree (queue, error_type, ended_at) WHERE (outcome = ANY (ARRAY['retry'::mainspring.outcome, 'parked'::mainspring.outcome]));

CREATE INDEX history_other_ended_at_idx ON mainspring.history_other USING brin (ended_at) WITH (pages_per_range='32', autosummarize='on');

CREATE INDEX history_time ON ONLY mainspring.history_run USING btree (queue, ended_at);

CREATE INDEX history_other_queue_ended_at_idx ON mainspring.history_other USING btree (queue, ended_at);

CREATE INDEX history_other_queue_error_type_ended_at_idx ON mainspring.history_other USING btree (queue, error_type, ended_at) WHERE (outcome = ANY (ARRAY['retry'::mainspring.outcome, 'parked'::mainspring.outcome]));

CREATE INDEX history_searchable ON ONLY mainspring.history_run USING gin (searchable) WHERE (searchable IS NOT NULL);

CREATE INDEX history_other_searchable_idx ON mainspring.history_other USING gin (searchable) WHERE (searchable IS NOT NULL);

CREATE INDEX lease_of_worker ON mainspring.lease USING btree (worker_id);

CREATE INDEX leaving_key ON mainspring.leaving USING btree (kind, key, xact);

CREATE INDEX param_by_name ON mainspring.param USING hash (name);

CREATE INDEX param_log_age ON mainspring.param_log USING brin (at);

CREATE INDEX parked_task_group ON mainspring.parked_task USING btree (type, actor, fingerprint, task);

CREATE INDEX parked_task_of_process ON mainspring.parked_task USING btree (process_id);

CREATE INDEX process_attrs ON mainspring.process USING gin (attrs jsonb_path_ops);

CREATE INDEX process_created ON mainspring.process USING btree (created_at);

CREATE INDEX process_ended ON mainspring.process USING btree (ended_at) WHERE ((ended_at IS NOT NULL) AND (NOT thinned));

CREATE INDEX process_inconsistent ON mainspring.process USING btree (inconsistent_at) WHERE (inconsistent_at IS NOT NULL);

CREATE INDEX process_lock_in_line ON mainspring.process_lock USING btree (name, no);

CREATE INDEX process_lock_of_process ON mainspring.process_lock USING btree (process_id);

CREATE INDEX process_lock_of_scope ON mainspring.process_lock USING btree (scope_id);

CREATE UNIQUE INDEX process_lock_one_holder ON mainspring.process_lock USING btree (name) WHERE (held_at IS NOT NULL);

CREATE INDEX process_of_parent ON mainspring.process USING btree (parent_process) WHERE (parent_process IS NOT NULL);

CREATE INDEX process_recovery ON mainspring.process USING btree (COALESCE(look_at, created_at)) WHERE (state = 'open'::mainspring.process_state);

CREATE INDEX process_search ON mainspring.process USING btree (type, state, created_at);

CREATE INDEX process_unfinished ON mainspring.process USING btree (state, created_at) WHERE (state <> 'finished'::mainspring.process_state);

CREATE INDEX produces_of_task ON mainspring.produces USING hash (task);

CREATE INDEX queue_bounded ON mainspring.queue USING btree (name) WHERE (waiting_max IS NOT NULL);

CREATE INDEX reach_of_worker ON mainspring.reach USING btree (worker_id);

CREATE INDEX reactive_ended_of_pool ON mainspring.reactive_ended USING btree (pool, at);

CREATE INDEX reactive_missed ON mainspring.reactive_task USING btree (task) WHERE (missed_at IS NOT NULL);

CREATE INDEX reactive_ready ON mainspring.reactive_task USING btree (pool, priority DESC, fired_at, task) WHERE (firing IS NOT NULL);

CREATE INDEX reactive_task_by_name ON mainspring.reactive_task USING hash (task);

CREATE INDEX repair_of_process ON mainspring.repair USING btree (process_id);

CREATE INDEX scope_of_process ON mainspring.scope USING btree (process_id);

CREATE INDEX task_actor ON ONLY mainspring.task USING btree (actor, process_id);

CREATE INDEX task_other_actor_process_id_idx ON mainspring.task_other USING btree (actor, process_id);

CREATE INDEX uses_of_task ON mainspring.uses USING hash (task);

CREATE INDEX visit_alike ON mainspring.visit USING btree (error_type, queue, fingerprint, parked_at) WHERE (parked_at IS NOT NULL);

CREATE INDEX visit_due ON mainspring.visit USING btree (queue, priority, due_at, key) WHERE ((pass IS NULL) AND (parked_at IS NULL));

CREATE INDEX visit_group ON mainspring.visit USING btree (queue, grp, priority, due_at, key) WHERE ((grp IS NOT NULL) AND (pass IS NULL) AND (parked_at IS NULL));

CREATE INDEX visit_held ON mainspring.visit USING btree (shard) WHERE (pass IS NOT NULL);

CREATE INDEX visit_parked ON mainspring.visit USING btree (queue, parked_at, key) WHERE (parked_at IS NOT NULL);

CREATE INDEX wait_of_process ON mainspring.wait USING btree (process_id);

ALTER INDEX mainspring.edge_pkey ATTACH PARTITION mainspring.edge_other_pkey;

ALTER INDEX mainspring.edge_of_task ATTACH PARTITION mainspring.edge_other_process_id_task_pos_idx;

ALTER INDEX mainspring.event_kept_number ATTACH PARTITION mainspring.event_kept_other_kind_number_idx;

ALTER INDEX mainspring.history_bundle_key ATTACH PARTITION mainspring.history_bundle_other_kin_last_key_first_key_idx;

ALTER INDEX mainspring.history_bundle_ended ATTACH PARTITION mainspring.history_bundle_other_last_end_idx;

ALTER INDEX mainspring.history_bundle_begin ATTACH PARTITION mainspring.history_bundle_other_queue_first_end_last_end_idx;

ALTER INDEX mainspring.history_bundle_end ATTACH PARTITION mainspring.history_bundle_other_queue_last_end_first_end_idx;

ALTER INDEX mainspring.history_ended ATTACH PARTITION mainspring.history_other_ended_at_idx;

ALTER INDEX mainspring.history_pkey ATTACH PARTITION mainspring.history_other_pkey;

ALTER INDEX mainspring.history_time ATTACH PARTITION mainspring.history_other_queue_ended_at_idx;

ALTER INDEX mainspring.history_failed ATTACH PARTITION mainspring.history_other_queue_error_type_ended_at_idx;

ALTER INDEX mainspring.history_searchable ATTACH PARTITION mainspring.history_other_searchable_idx;

ALTER INDEX mainspring.task_actor ATTACH PARTITION mainspring.task_other_actor_process_id_idx;

ALTER INDEX mainspring.task_pkey ATTACH PARTITION mainspring.task_other_pkey;

CREATE TRIGGER add_to_history INSTEAD OF INSERT ON mainspring.history FOR EACH ROW EXECUTE FUNCTION mainspring.add_to_history();

CREATE TRIGGER document_bump BEFORE UPDATE ON mainspring.document FOR EACH ROW EXECUTE FUNCTION mainspring.bump_document();

CREATE TRIGGER document_clear BEFORE TRUNCATE ON mainspring.document FOR EACH STATEMENT EXECUTE FUNCTION mainspring.clear_documents();

CREATE TRIGGER document_delete AFTER DELETE ON mainspring.document REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION mainspring.capture_document();

CREATE TRIGGER document_insert AFTER INSERT ON mainspring.document REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION mainspring.capture_document();

CREATE TRIGGER document_update AFTER UPDATE ON mainspring.document REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION mainspring.capture_document();

CREATE TRIGGER follow_end AFTER DELETE ON mainspring.visit FOR EACH ROW WHEN ((old.follow_up IS NOT NULL)) EXECUTE FUNCTION mainspring.follow_end();

CREATE TRIGGER follow_park AFTER UPDATE OF parked_at ON mainspring.visit FOR EACH ROW WHEN (((old.follow_up IS NOT NULL) AND (new.parked_at IS NOT NULL))) EXECUTE FUNCTION mainspring.follow_park();

CREATE CONSTRAINT TRIGGER leaving_end AFTER INSERT ON mainspring.leaving DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION mainspring.capture_left();
ALTER TABLE mainspring.leaving ENABLE ALWAYS TRIGGER leaving_end;

CREATE CONSTRAINT TRIGGER open_pool AFTER DELETE ON mainspring.worker DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((old.code IS NOT NULL)) EXECUTE FUNCTION mainspring.open_pool();

ALTER TABLE ONLY mainspring.blame
    ADD CONSTRAINT blame_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES mainspring.death(worker_id) ON DELETE CASCADE;

ALTER TABLE ONLY mainspring.consumer
    ADD CONSTRAINT consumer_kind_fkey FOREIGN KEY (kind) REFERENCES mainspring.kind(name) ON DELETE CASCADE;

ALTER TABLE ONLY mainspring.operation_item
    ADD CONSTRAINT operation_item_operation_id_fkey FOREIGN KEY (operation_id) REFERENCES mainspring.operation(id) ON DELETE CASCADE;

ALTER TABLE ONLY mainspring.part
    ADD CONSTRAINT part_queue_fkey FOREIGN KEY (queue) REFERENCES mainspring.queue(name) ON DELETE CASCADE;

ALTER TABLE ONLY mainspring.part
    ADD CONSTRAINT part_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES mainspring.worker(id) ON DELETE CASCADE;

ALTER TABLE ONLY mainspring.stage
    ADD CONSTRAINT stage_kind_fkey FOREIGN KEY (kind) REFERENCES mainspring.kind(name) ON DELETE CASCADE;

ALTER TABLE ONLY mainspring.worker_cipher
    ADD CONSTRAINT worker_cipher_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES mainspring.worker(id) ON DELETE CASCADE;
