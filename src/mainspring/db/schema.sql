CREATE SCHEMA mainspring;

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

CREATE TYPE mainspring.visit_state AS ENUM (
    'scheduled',
    'waiting',
    'running',
    'parked'
);

CREATE FUNCTION mainspring.advance(param text, value date, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$ begin perform mainspring.refuse_zoneless(param, 'date'); return false; end $$;

CREATE FUNCTION mainspring.advance(param text, value integer, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
    AS $$select mainspring.advance(param, value::bigint, why)$$;

CREATE FUNCTION mainspring.advance(param text, value bigint, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(a.name, a.answer, a.kind, a.old, a.value, 'integer')
    from mainspring.advance_params(array[param], array['integer'], array[value::text], false, session_user, why) a
  $$;

CREATE FUNCTION mainspring.advance(param text, value numeric, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$ begin perform mainspring.refuse_numeric(param, value); return false; end $$;

CREATE FUNCTION mainspring.advance(param text, value text, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(a.name, a.answer, a.kind, a.old, a.value, k.kind)
    from (select coalesce((select p.kind from mainspring.param p where p.name = param), 'version') as kind) k
    cross join lateral mainspring.advance_params(array[param], array[k.kind],
      array[mainspring.parse_value(param, k.kind, value)], false, session_user, why) a
  $$;

CREATE FUNCTION mainspring.advance(param text, value timestamp without time zone, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$ begin perform mainspring.refuse_zoneless(param, 'timestamp'); return false; end $$;

CREATE FUNCTION mainspring.advance(param text, value timestamp with time zone, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(a.name, a.answer, a.kind, a.old, a.value, 'instant')
    from mainspring.advance_params(array[param], array['instant'], array[mainspring.finite_micros(param, value)::text], false,
      session_user, why) a
  $$;

CREATE FUNCTION mainspring.advance_params(names text[], kinds text[], given text[], only_greater boolean, changed_by text DEFAULT NULL::text, why text DEFAULT NULL::text) RETURNS TABLE(name text, answer text, kind text, old text, value text, ahead boolean)
    LANGUAGE plpgsql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
declare
  looked jsonb;
  moment timestamptz;
begin
  perform from mainspring.param p where p.name = any(names) order by p.name for no key update;
  moment := mainspring.clock();
  select jsonb_agg(to_jsonb(c) order by c.name) into looked from (
    select i.name, p.kind, coalesce(p.num::text, p.ver) as old, i.given as value,
      case
        when p.name is null then 'unknown'
        when i.kind <> p.kind then 'kind'
        when p.kind = 'version' then case when p.ver = i.given then 'same' else 'set' end
        when p.kind = 'instant' and i.given::bigint not between 0 and 221845391999999999 then 'range'
        when p.num is null or i.given::bigint > p.num then 'set'
        when i.given::bigint = p.num then 'same'
        else 'lower'
      end as answer,
      case when p.kind = 'instant' and i.kind = 'instant' then i.given::bigint > mainspring.micros(moment + p.warn_ahead)
        else false end as ahead
    from unnest(names, kinds, given) as i(name, kind, given)
    left join mainspring.param p on p.name = i.name
  ) c;
  if not exists (
    select from jsonb_to_recordset(looked) as c(answer text)
    where c.answer in ('unknown', 'kind', 'range') or (c.answer = 'lower' and not only_greater)
  ) then
    with fresh as (
      select c.name, c.kind, c.value, c.ahead,
        case when c.kind <> 'version' then c.value::bigint end as num, case when c.kind = 'version' then c.value end as ver
      from jsonb_to_recordset(looked) as c(name text, answer text, kind text, value text, ahead boolean)
      where c.answer = 'set'
    ),
    logged as (
      insert into mainspring.param_log (param, num, ver, old_num, old_ver, changed_by, why, at)
      select p.name, f.num, f.ver, p.num, p.ver, advance_params.changed_by, advance_params.why, moment
      from fresh f join mainspring.param p on p.name = f.name
      order by f.name
    )
    update mainspring.param p
    set num = f.num, ver = f.ver, changed_at = moment, changed_by = advance_params.changed_by, why = advance_params.why,
      ahead = f.ahead
    from fresh f
    where p.name = f.name;
    perform mainspring.offer_changes(array(
      select c.name from jsonb_to_recordset(looked) as c(name text, answer text) where c.answer = 'set'));
  end if;
  return query select c.name, c.answer, c.kind, c.old, c.value, c.ahead
    from jsonb_to_recordset(looked) as c(name text, answer text, kind text, old text, value text, ahead boolean);
end
$$;

CREATE FUNCTION mainspring.check_answer(name text, answer text, kind text, old text, value text, wanted text) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION mainspring.clock() RETURNS timestamp with time zone
    LANGUAGE sql PARALLEL SAFE
    AS $$select pg_catalog.clock_timestamp()$$;

CREATE FUNCTION mainspring.enqueue(task text, arguments jsonb DEFAULT '{}'::jsonb, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, priority integer DEFAULT NULL::integer, grp text DEFAULT NULL::text, key text DEFAULT NULL::text) RETURNS uuid
    LANGUAGE plpgsql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
    AS $$
declare
  fresh uuid := mainspring.uuid7();
  wanted_at timestamptz := greatest(coalesce(enqueue.due_at, mainspring.now()), mainspring.now());
  visit_key text;
  count integer;
  near text;
  winner uuid;
begin
  if not exists (select from mainspring.queue q where q.name = task) then
    -- The one that begins most alike: with at least three letters and half of what was asked for.
    select q.name into near from mainspring.queue q
      cross join lateral (select count(*) as length from generate_series(1, least(length(q.name), length(task))) n
        where left(q.name, n) = left(task, n)) alike
      where q.kind = 'task' and alike.length >= greatest(3, length(task) / 2)
      order by alike.length desc, abs(length(q.name) - length(task)), q.name limit 1;
    raise exception 'unknown task %', quote_literal(task) using
      errcode = 'undefined_object',
      hint = 'tasks are registered by a worker or by "mainspring migrate module:app"'
        || coalesce('; did you mean ' || quote_literal(near) || '?', '');
  end if;
  if jsonb_typeof(arguments) is distinct from 'object' then
    raise exception 'arguments of task % must be a JSON object, got %', quote_literal(task), coalesce(jsonb_typeof(arguments), 'null')
      using errcode = 'invalid_parameter_value', hint = 'name the arguments: {"to": "someone@example.org"}';
  end if;
  if octet_length(arguments::text) > 2 * 1024 * 1024 then
    raise exception 'arguments of task % are % bytes, the limit is 2097152', quote_literal(task), octet_length(arguments::text)
      using errcode = 'invalid_parameter_value', hint = 'store the data elsewhere and pass a reference';
  end if;
  if not isfinite(wanted_at) then
    raise exception 'due_at of task % must be finite, got %', quote_literal(task), wanted_at using errcode = 'invalid_parameter_value';
  end if;
  if coalesce(enqueue.priority, 5) not between 0 and 9 then
    raise exception 'priority of task % must be 0 to 9, got %', quote_literal(task), enqueue.priority using errcode = 'invalid_parameter_value';
  end if;
  if key = '' or octet_length(key) > 1024 then
    raise exception 'key of task % must have 1 to 1024 bytes, got %', quote_literal(task), octet_length(key) using errcode = 'invalid_parameter_value';
  end if;
  if grp = '' or octet_length(grp) > 255 then
    raise exception 'group of task % must have 1 to 255 bytes, got %', quote_literal(task), octet_length(grp) using errcode = 'invalid_parameter_value';
  end if;
  select shard_count into strict count from mainspring.install;
  visit_key := case
    when key is null then fresh::text
    when grp is null and key !~ '^[0-9]+:' then key
    else octet_length(coalesce(grp, '')) || ':' || coalesce(grp, '') || ':' || key
  end;
  loop
    insert into mainspring.visit (shard, key, queue, id, grp, priority, due_at, version, payload, created_at, changed_at)
    values (mainspring.shard(coalesce(enqueue.grp, visit_key), count), visit_key, task, fresh, enqueue.grp,
      coalesce(enqueue.priority, 5), wanted_at, mainspring.token(), arguments, mainspring.now(), mainspring.now())
    on conflict do nothing;
    if found then
      perform mainspring.wake(task, wanted_at);
      return fresh;
    end if;
    select v.id into winner from mainspring.visit v
      where v.shard = mainspring.shard(coalesce(enqueue.grp, visit_key), count) and v.key = visit_key and v.queue = task;
    if found then
      return winner;
    end if;
    -- The one that had the key was settled between the two statements: insert again.
  end loop;
end
$$;

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

CREATE FUNCTION mainspring.instant(micros bigint) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (('1970-01-01 00:00:00+00'::timestamp with time zone + make_interval(secs => ((micros / 1000000))::double precision)) + (((micros % (1000000)::bigint))::double precision * '00:00:00.000001'::interval));

CREATE FUNCTION mainspring.micros(at timestamp with time zone) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((EXTRACT(epoch FROM (at AT TIME ZONE 'UTC'::text)) * (1000000)::numeric))::bigint;

CREATE FUNCTION mainspring.now() RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$select pg_catalog.now()$$;

CREATE FUNCTION mainspring.offer_changes(names text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
    AS $$
declare
  earliest timestamptz;
  base bigint := mainspring.token() >> 1;             -- random bits are dear: versions count up from these, ids are digests
begin
  with offered as (
    insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
    select i.shard, i.name, 'mainspring.change', md5(i.name || base)::uuid, 9, mainspring.now(), base + row_number() over (),
      '{}', mainspring.now(), mainspring.now()
    from (
      select mainspring.shard(n.name, s.shard_count) as shard, n.name
      from unnest(names) as n(name), mainspring.install s
      order by 1, 2
    ) i
    on conflict (shard, key, queue) do update
    set version = excluded.version,
      due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end,
      offered_while_parked = v.offered_while_parked or v.parked_at is not null,
      changed_at = excluded.changed_at
    where v.xmin <> pg_current_xact_id()::xid
    returning v.due_at
  )
  select min(due_at) into earliest from offered;
  if earliest is not null then
    perform mainspring.wake('mainspring.change', earliest);
  end if;
end
$$;

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

CREATE FUNCTION mainspring.refuse_numeric(param text, value numeric) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
  raise exception 'param % was given the number %, which is not a whole number of type bigint', quote_literal(param), value
    using errcode = 'invalid_parameter_value', hint = 'cast it: value::bigint';
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

CREATE FUNCTION mainspring.rewind(param text, value date, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$ begin perform mainspring.refuse_zoneless(param, 'date'); return false; end $$;

CREATE FUNCTION mainspring.rewind(param text, value integer, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
    AS $$select mainspring.rewind(param, value::bigint, why)$$;

CREATE FUNCTION mainspring.rewind(param text, value bigint, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(param, a.answer, a.known_kind, a.old, value::text, 'integer')
    from mainspring.rewind_param(param, 'integer', value::text, '{}', session_user, why) a
  $$;

CREATE FUNCTION mainspring.rewind(param text, value text, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(param, a.answer, a.known_kind, a.old, value, k.kind)
    from (select coalesce((select p.kind from mainspring.param p where p.name = param), 'version') as kind) k
    cross join lateral mainspring.rewind_param(param, k.kind, mainspring.parse_value(param, k.kind, value), '{}',
      session_user, why) a
  $$;

CREATE FUNCTION mainspring.rewind(param text, value timestamp without time zone, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$ begin perform mainspring.refuse_zoneless(param, 'timestamp'); return false; end $$;

CREATE FUNCTION mainspring.rewind(param text, value timestamp with time zone, why text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
    AS $$
    select mainspring.check_answer(param, a.answer, a.known_kind, a.old, mainspring.micros(value)::text, 'instant')
    from mainspring.rewind_param(param, 'instant', mainspring.finite_micros(param, value)::text, '{}', session_user, why) a
  $$;

CREATE FUNCTION mainspring.rewind_param(name text, kind text, given text, chunks bigint[] DEFAULT '{}'::bigint[], changed_by text DEFAULT NULL::text, why text DEFAULT NULL::text) RETURNS TABLE(answer text, known_kind text, old text)
    LANGUAGE plpgsql
    SET search_path TO 'mainspring', 'pg_catalog', 'pg_temp'
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
      rewinds = p.rewinds + 1, changed_at = moment, changed_by = rewind_param.changed_by, why = rewind_param.why,
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

CREATE FUNCTION mainspring.shard(route text, shard_count integer) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((((((get_byte(sha256(convert_to(route, 'UTF8'::name)), 0))::bigint << 24) + (get_byte(sha256(convert_to(route, 'UTF8'::name)), 1) << 16)) + (get_byte(sha256(convert_to(route, 'UTF8'::name)), 2) << 8)) + get_byte(sha256(convert_to(route, 'UTF8'::name)), 3)) % (shard_count)::bigint);

CREATE FUNCTION mainspring.shown(kind text, num bigint, ver text) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE kind WHEN 'instant'::text THEN to_char((mainspring.instant(num) AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'::text) WHEN 'integer'::text THEN (num)::text ELSE ver END;

CREATE FUNCTION mainspring.token() RETURNS bigint
    LANGUAGE sql PARALLEL SAFE
    AS $$
    select ('x' || left(right(replace(gen_random_uuid()::text, '-', ''), 14)
      || replace(gen_random_uuid()::text, '-', ''), 16))::bit(64)::bigint
  $$;

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

CREATE FUNCTION mainspring.wake(queue text, due_at timestamp with time zone) RETURNS void
    LANGUAGE sql
    AS $$
    select pg_notify('mainspring', (extract(epoch from due_at) * 1000000)::bigint::text || ' ' || queue)
    where exists (
      select from mainspring.worker w
      where w.asleep and w.pool = (select q.pool from mainspring.queue q where q.name = wake.queue))
  $$;

CREATE TABLE mainspring.definition (
    fingerprint text NOT NULL COLLATE pg_catalog."C",
    format integer NOT NULL,
    tree jsonb NOT NULL,
    options jsonb NOT NULL
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

CREATE TABLE mainspring.history (
    day date NOT NULL,
    run bigint NOT NULL,
    id uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    grp text COLLATE pg_catalog."C",
    priority smallint NOT NULL,
    attempt integer NOT NULL,
    outcome mainspring.outcome NOT NULL,
    superseded boolean DEFAULT false NOT NULL,
    worker_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    due_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    duration_ms double precision NOT NULL,
    error_type text,
    error text,
    payload jsonb NOT NULL,
    result jsonb,
    searchable text[]
)
PARTITION BY RANGE (day);

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
    CONSTRAINT install_id_check CHECK (id),
    CONSTRAINT install_shard_count_check CHECK (((shard_count >= 1) AND (shard_count <= 65536)))
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

CREATE TABLE mainspring.part (
    queue text NOT NULL COLLATE pg_catalog."C",
    worker_id uuid NOT NULL,
    size integer DEFAULT 0 NOT NULL,
    rate double precision DEFAULT 0 NOT NULL,
    wants boolean DEFAULT false NOT NULL
);

CREATE TABLE mainspring.produces (
    param text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C"
);

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
    CONSTRAINT queue_concurrency_check CHECK ((concurrency >= 0)),
    CONSTRAINT queue_group_concurrency_check CHECK ((group_concurrency >= 0)),
    CONSTRAINT queue_group_rate_check CHECK ((group_rate >= (0)::double precision)),
    CONSTRAINT queue_name_check CHECK (((name <> ''::text) AND (octet_length(name) <= 200))),
    CONSTRAINT queue_rate_check CHECK ((rate >= (0)::double precision))
);

CREATE TABLE mainspring.reach (
    worker_id uuid NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    priority smallint NOT NULL,
    due_at timestamp with time zone NOT NULL
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

CREATE TABLE mainspring.reactive_pool (
    pool text NOT NULL COLLATE pg_catalog."C",
    cap integer,
    reserve_max interval DEFAULT '00:02:00'::interval NOT NULL,
    declared jsonb DEFAULT '{}'::jsonb NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT reactive_pool_cap_check CHECK ((cap >= 1))
);

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
    changed_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE mainspring.uses (
    param text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C"
);

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
    CONSTRAINT visit_due_at_check CHECK (isfinite(due_at)),
    CONSTRAINT visit_key_check CHECK (((key <> ''::text) AND (octet_length(key) <= 1300))),
    CONSTRAINT visit_priority_check CHECK (((priority >= 0) AND (priority <= 9)))
)
WITH (fillfactor='90', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0.2');

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
    beat_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
)
WITH (fillfactor='50');

CREATE VIEW mainspring.violation AS
 SELECT 'a queue and key has two visits'::text AS rule,
    ((visit.queue || ' '::text) || visit.key) AS detail
   FROM mainspring.visit
  GROUP BY visit.queue, visit.key
 HAVING (count(*) > 1)
UNION ALL
 SELECT 'a visit lies outside the shards'::text AS rule,
    ((visit.queue || ' '::text) || visit.key) AS detail
   FROM mainspring.visit,
    mainspring.install
  WHERE ((visit.shard < 0) OR (visit.shard > (install.shard_count - 1)))
UNION ALL
 SELECT 'a visit lies in a shard that is not its route''s'::text AS rule,
    ((visit.queue || ' '::text) || visit.key) AS detail
   FROM mainspring.visit,
    mainspring.install
  WHERE ((visit.grp IS NOT NULL) AND (visit.shard <> mainspring.shard(visit.grp, install.shard_count)))
UNION ALL
 SELECT 'a shard has no lease row'::text AS rule,
    ((p.pool || ' '::text) || n.n) AS detail
   FROM ( SELECT DISTINCT lease.pool
           FROM mainspring.lease) p,
    mainspring.install,
    LATERAL generate_series(0, (install.shard_count - 1)) n(n)
  WHERE (NOT (EXISTS ( SELECT
           FROM mainspring.lease l
          WHERE ((l.pool = p.pool) AND (l.shard = n.n)))))
UNION ALL
 SELECT 'a held visit has no living holder'::text AS rule,
    ((v.queue || ' '::text) || v.key) AS detail
   FROM mainspring.visit v
  WHERE ((v.pass IS NOT NULL) AND (v.held_until IS NULL) AND (NOT (EXISTS ( SELECT
           FROM mainspring.worker w
          WHERE (w.id = v.holder)))))
UNION ALL
 SELECT 'a visit is half held'::text AS rule,
    ((visit.queue || ' '::text) || visit.key) AS detail
   FROM mainspring.visit
  WHERE (((visit.pass IS NULL) <> (visit.started_at IS NULL)) OR ((visit.pass IS NULL) AND (visit.held_until IS NOT NULL)))
UNION ALL
 SELECT 'parts add up to more than the limit'::text AS rule,
    p.queue AS detail
   FROM (mainspring.part p
     JOIN mainspring.queue q ON ((q.name = p.queue)))
  GROUP BY p.queue, q.concurrency, q.rate
 HAVING ((sum(p.size) > q.concurrency) OR (sum(p.rate) > (q.rate * (1.000001)::double precision)))
UNION ALL
 SELECT 'a run is in history twice'::text AS rule,
    (history.run)::text AS detail
   FROM mainspring.history
  GROUP BY history.run
 HAVING (count(*) > 1)
UNION ALL
 SELECT 'a lease belongs to no living worker'::text AS rule,
    ((l.pool || ' '::text) || l.shard) AS detail
   FROM mainspring.lease l
  WHERE ((l.worker_id IS NOT NULL) AND (NOT (EXISTS ( SELECT
           FROM mainspring.worker w
          WHERE (w.id = l.worker_id)))))
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
            WHEN (v.parked_at IS NULL) THEN (v.attempt + 1)
            ELSE GREATEST(1, v.attempt)
        END AS attempt,
    v.crashes,
    v.work_timeouts,
    v.holder,
    l.worker_id AS leased_by,
    v.started_at,
    v.held_until,
    v.expires_at,
    v.parked_at,
    v.offered_while_parked,
    v.error,
    v.payload,
    v.created_at,
    v.changed_at,
    v.shard
   FROM ((mainspring.visit v
     LEFT JOIN mainspring.queue q ON ((q.name = v.queue)))
     LEFT JOIN mainspring.lease l ON (((l.pool = q.pool) AND (l.shard = v.shard))));

ALTER TABLE ONLY mainspring.history ATTACH PARTITION mainspring.history_other DEFAULT;

ALTER TABLE ONLY mainspring.definition
    ADD CONSTRAINT definition_pkey PRIMARY KEY (fingerprint);

ALTER TABLE ONLY mainspring.evaluation
    ADD CONSTRAINT evaluation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.history
    ADD CONSTRAINT history_pkey PRIMARY KEY (key, run, day);

ALTER TABLE ONLY mainspring.history_other
    ADD CONSTRAINT history_other_pkey PRIMARY KEY (key, run, day);

ALTER TABLE ONLY mainspring.install
    ADD CONSTRAINT install_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (pool, shard);

ALTER TABLE ONLY mainspring.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);

ALTER TABLE ONLY mainspring.operation_item
    ADD CONSTRAINT operation_item_pkey PRIMARY KEY (operation_id, number);

ALTER TABLE ONLY mainspring.operation
    ADD CONSTRAINT operation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.param_log
    ADD CONSTRAINT param_log_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.param
    ADD CONSTRAINT param_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.param_rewind
    ADD CONSTRAINT param_rewind_pkey PRIMARY KEY (param, number);

ALTER TABLE ONLY mainspring.part
    ADD CONSTRAINT part_pkey PRIMARY KEY (queue, worker_id);

ALTER TABLE ONLY mainspring.produces
    ADD CONSTRAINT produces_pkey PRIMARY KEY (param, task);

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

ALTER TABLE ONLY mainspring.uses
    ADD CONSTRAINT uses_pkey PRIMARY KEY (param, task);

ALTER TABLE ONLY mainspring.visit
    ADD CONSTRAINT visit_pkey PRIMARY KEY (key, queue, shard);

ALTER TABLE ONLY mainspring.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

CREATE INDEX evaluation_age ON mainspring.evaluation USING brin (at);

CREATE INDEX evaluation_of_task ON mainspring.evaluation USING btree (task, id);

CREATE INDEX history_failed ON ONLY mainspring.history USING btree (queue, error_type, ended_at) WHERE (outcome = ANY (ARRAY['retry'::mainspring.outcome, 'parked'::mainspring.outcome]));

CREATE INDEX history_time ON ONLY mainspring.history USING btree (queue, ended_at);

CREATE INDEX history_other_queue_ended_at_idx ON mainspring.history_other USING btree (queue, ended_at);

CREATE INDEX history_other_queue_error_type_ended_at_idx ON mainspring.history_other USING btree (queue, error_type, ended_at) WHERE (outcome = ANY (ARRAY['retry'::mainspring.outcome, 'parked'::mainspring.outcome]));

CREATE INDEX history_searchable ON ONLY mainspring.history USING gin (searchable) WHERE (searchable IS NOT NULL);

CREATE INDEX history_other_searchable_idx ON mainspring.history_other USING gin (searchable) WHERE (searchable IS NOT NULL);

CREATE INDEX lease_of_worker ON mainspring.lease USING btree (worker_id);

CREATE INDEX param_log_age ON mainspring.param_log USING brin (at);

CREATE INDEX param_log_of_param ON mainspring.param_log USING btree (param, id);

CREATE INDEX produces_of_task ON mainspring.produces USING btree (task, param);

CREATE INDEX reach_of_worker ON mainspring.reach USING btree (worker_id);

CREATE INDEX reactive_ended_of_pool ON mainspring.reactive_ended USING btree (pool, at);

CREATE INDEX reactive_missed ON mainspring.reactive_task USING btree (task) WHERE (missed_at IS NOT NULL);

CREATE INDEX reactive_ready ON mainspring.reactive_task USING btree (pool, priority DESC, fired_at, task) WHERE (firing IS NOT NULL);

CREATE INDEX uses_of_task ON mainspring.uses USING btree (task, param);

CREATE INDEX visit_due ON mainspring.visit USING btree (queue, priority, due_at, key) WHERE ((pass IS NULL) AND (parked_at IS NULL));

CREATE INDEX visit_group ON mainspring.visit USING btree (queue, grp, priority, due_at, key) WHERE ((grp IS NOT NULL) AND (pass IS NULL) AND (parked_at IS NULL));

CREATE INDEX visit_held ON mainspring.visit USING btree (shard) WHERE (pass IS NOT NULL);

CREATE INDEX visit_parked ON mainspring.visit USING btree (queue, parked_at, key) WHERE (parked_at IS NOT NULL);

ALTER INDEX mainspring.history_pkey ATTACH PARTITION mainspring.history_other_pkey;

ALTER INDEX mainspring.history_time ATTACH PARTITION mainspring.history_other_queue_ended_at_idx;

ALTER INDEX mainspring.history_failed ATTACH PARTITION mainspring.history_other_queue_error_type_ended_at_idx;

ALTER INDEX mainspring.history_searchable ATTACH PARTITION mainspring.history_other_searchable_idx;

ALTER TABLE ONLY mainspring.operation_item
    ADD CONSTRAINT operation_item_operation_id_fkey FOREIGN KEY (operation_id) REFERENCES mainspring.operation(id) ON DELETE CASCADE;

ALTER TABLE ONLY mainspring.part
    ADD CONSTRAINT part_queue_fkey FOREIGN KEY (queue) REFERENCES mainspring.queue(name) ON DELETE CASCADE;

ALTER TABLE ONLY mainspring.part
    ADD CONSTRAINT part_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES mainspring.worker(id) ON DELETE CASCADE;
