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

CREATE FUNCTION mainspring.now() RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$select pg_catalog.now()$$;

CREATE FUNCTION mainspring.shard(route text, shard_count integer) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((((((get_byte(sha256(convert_to(route, 'UTF8'::name)), 0))::bigint << 24) + (get_byte(sha256(convert_to(route, 'UTF8'::name)), 1) << 16)) + (get_byte(sha256(convert_to(route, 'UTF8'::name)), 2) << 8)) + get_byte(sha256(convert_to(route, 'UTF8'::name)), 3)) % (shard_count)::bigint);

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

CREATE TABLE mainspring.actor (
    name text NOT NULL COLLATE pg_catalog."C",
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    declared jsonb DEFAULT '{}'::jsonb NOT NULL,
    changed_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
);

CREATE TABLE mainspring.counter (
    actor text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    minute timestamp with time zone NOT NULL,
    n bigint DEFAULT 0 NOT NULL
);

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

CREATE TABLE mainspring.external (
    task uuid NOT NULL,
    process_id uuid NOT NULL,
    kind mainspring.external_kind NOT NULL,
    name text COLLATE pg_catalog."C",
    due_at timestamp with time zone,
    child uuid
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

CREATE TABLE mainspring.part (
    queue text NOT NULL COLLATE pg_catalog."C",
    worker_id uuid NOT NULL,
    size integer DEFAULT 0 NOT NULL,
    rate double precision DEFAULT 0 NOT NULL,
    wants boolean DEFAULT false NOT NULL
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
    CONSTRAINT process_key_check CHECK (((key <> ''::text) AND (octet_length(key) <= 1024)))
)
WITH (fillfactor='80');

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
    v.held_until
   FROM (((mainspring.task t
     LEFT JOIN LATERAL ( SELECT count(*) FILTER (WHERE (e_1.kind <> 'handle'::mainspring.edge_kind)) AS inputs,
            count(*) FILTER (WHERE ((e_1.kind <> 'handle'::mainspring.edge_kind) AND (p.id IS NOT NULL) AND (p.outcome IS NULL))) AS open_inputs,
            count(*) FILTER (WHERE ((e_1.kind = ANY (ARRAY['value'::mainspring.edge_kind, 'order'::mainspring.edge_kind])) AND (p.outcome = 'err'::mainspring.promise_outcome))) AS stopping,
            count(*) FILTER (WHERE (p.id IS NULL)) AS gone,
            max(p.outcome_no) FILTER (WHERE (e_1.kind <> 'handle'::mainspring.edge_kind)) AS last_no
           FROM (mainspring.edge e_1
             LEFT JOIN mainspring.task p ON (((p.process_id = e_1.process_id) AND (p.id = e_1.promise))))
          WHERE ((e_1.process_id = t.process_id) AND (e_1.task = t.id))) e ON (true))
     LEFT JOIN mainspring.wait w ON ((w.task = t.id)))
     LEFT JOIN mainspring.visit v ON (((v.key = (t.id)::text) AND (v.queue =
        CASE
            WHEN ("left"(t.actor, 1) = '@'::text) THEN 'mainspring.process'::text
            ELSE t.actor
        END))));

CREATE VIEW mainspring.process_violation AS
 SELECT 'I1'::text AS rule,
    'an open task has no visit and waits for nothing'::text AS detail,
    task_view.process_id,
    task_view.id AS task
   FROM mainspring.task_view
  WHERE ((task_view.state = 'open'::mainspring.task_state) AND (NOT task_view.has_visit) AND (task_view.open_inputs = 0))
UNION ALL
 SELECT 'I1'::text AS rule,
    'a task that waits has a visit'::text AS detail,
    task_view.process_id,
    task_view.id AS task
   FROM mainspring.task_view
  WHERE ((task_view.state = 'open'::mainspring.task_state) AND task_view.has_visit AND (task_view.open_inputs > 0) AND (task_view.stopping = 0) AND (NOT ((task_view.actor = '@first_of'::text) AND (task_view.open_inputs < task_view.inputs))))
UNION ALL
 SELECT 'I1'::text AS rule,
    'an external task has a visit, or nothing that it waits for'::text AS detail,
    t.process_id,
    t.id AS task
   FROM (mainspring.task_view t
     LEFT JOIN mainspring.external x ON ((x.task = t.id)))
  WHERE ((t.state = 'external'::mainspring.task_state) AND (t.has_visit OR (x.task IS NULL)))
UNION ALL
 SELECT 'I1'::text AS rule,
    'a parked task has no parked visit'::text AS detail,
    task_view.process_id,
    task_view.id AS task
   FROM mainspring.task_view
  WHERE ((task_view.state = 'parked'::mainspring.task_state) AND (NOT task_view.is_parked))
UNION ALL
 SELECT 'I1'::text AS rule,
    'a task that has ended has a visit or a count'::text AS detail,
    task_view.process_id,
    task_view.id AS task
   FROM mainspring.task_view
  WHERE ((task_view.state = ANY (ARRAY['done'::mainspring.task_state, 'cancelled'::mainspring.task_state, 'superseded'::mainspring.task_state])) AND (task_view.has_visit OR (task_view.wait_n IS NOT NULL)))
UNION ALL
 SELECT 'I1'::text AS rule,
    'a task that has ended waits outside or is listed as parked'::text AS detail,
    t.process_id,
    t.id AS task
   FROM mainspring.task t
  WHERE ((t.state = ANY (ARRAY['open'::mainspring.task_state, 'done'::mainspring.task_state, 'cancelled'::mainspring.task_state, 'superseded'::mainspring.task_state])) AND ((EXISTS ( SELECT
           FROM mainspring.external x
          WHERE (x.task = t.id))) OR (EXISTS ( SELECT
           FROM mainspring.parked_task p
          WHERE ((p.task = t.id) AND (t.state <> 'open'::mainspring.task_state))))))
UNION ALL
 SELECT 'I2'::text AS rule,
    'a count is not the number of open inputs'::text AS detail,
    task_view.process_id,
    task_view.id AS task
   FROM mainspring.task_view
  WHERE ((task_view.state = 'open'::mainspring.task_state) AND (NOT task_view.has_visit) AND (task_view.open_inputs > 0) AND (task_view.stopping = 0) AND (task_view.actor <> '@first_of'::text) AND (NOT ((task_view.waits = 1) AND (task_view.open_inputs = 1) AND (task_view.wait_n IS NULL))) AND (task_view.wait_n IS DISTINCT FROM task_view.open_inputs))
UNION ALL
 SELECT 'I2'::text AS rule,
    'a first_of waits although an input is closed'::text AS detail,
    task_view.process_id,
    task_view.id AS task
   FROM mainspring.task_view
  WHERE ((task_view.state = 'open'::mainspring.task_state) AND (NOT task_view.has_visit) AND (task_view.actor = '@first_of'::text) AND (task_view.open_inputs > 0) AND ((task_view.open_inputs < task_view.inputs) OR ((task_view.waits > 1) AND (task_view.wait_n IS DISTINCT FROM 1))))
UNION ALL
 SELECT 'I3'::text AS rule,
    'a task waits although an error stops it'::text AS detail,
    task_view.process_id,
    task_view.id AS task
   FROM mainspring.task_view
  WHERE ((task_view.state = 'open'::mainspring.task_state) AND (NOT task_view.has_visit) AND (task_view.stopping > 0))
UNION ALL
 SELECT 'I4'::text AS rule,
    'an open promise has not exactly one live task that fulfils it'::text AS detail,
    t.process_id,
    t.id AS task
   FROM (mainspring.task t
     JOIN mainspring.process p ON ((p.id = t.process_id)))
  WHERE ((p.state = 'open'::mainspring.process_state) AND (t.outcome IS NULL) AND (t.promise = t.id) AND (t.state <> 'superseded'::mainspring.task_state) AND (( SELECT count(*) AS count
           FROM mainspring.task f
          WHERE ((f.process_id = t.process_id) AND (f.promise = t.id) AND (f.state = ANY (ARRAY['open'::mainspring.task_state, 'external'::mainspring.task_state, 'parked'::mainspring.task_state])))) <> 1))
UNION ALL
 SELECT 'I4'::text AS rule,
    'a closed promise has a live task that would fulfil it'::text AS detail,
    t.process_id,
    t.id AS task
   FROM mainspring.task t
  WHERE ((t.state = ANY (ARRAY['open'::mainspring.task_state, 'external'::mainspring.task_state, 'parked'::mainspring.task_state])) AND (EXISTS ( SELECT
           FROM mainspring.task p
          WHERE ((p.process_id = t.process_id) AND (p.id = t.promise) AND (p.outcome IS NOT NULL)))))
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
    'a process has finished with a live task or an open root'::text AS detail,
    p.id AS process_id,
    p.root AS task
   FROM mainspring.process p
  WHERE ((p.state = 'finished'::mainspring.process_state) AND ((EXISTS ( SELECT
           FROM mainspring.task t
          WHERE ((t.process_id = p.id) AND (t.state = ANY (ARRAY['open'::mainspring.task_state, 'external'::mainspring.task_state, 'parked'::mainspring.task_state]))))) OR (EXISTS ( SELECT
           FROM mainspring.task t
          WHERE ((t.process_id = p.id) AND (t.id = p.root) AND (t.outcome IS NULL))))))
UNION ALL
 SELECT 'I8'::text AS rule,
    'a process was cancelled and has a live task'::text AS detail,
    p.id AS process_id,
    p.root AS task
   FROM mainspring.process p
  WHERE ((p.state = 'cancelled'::mainspring.process_state) AND (EXISTS ( SELECT
           FROM mainspring.task t
          WHERE ((t.process_id = p.id) AND (t.state = ANY (ARRAY['open'::mainspring.task_state, 'external'::mainspring.task_state, 'parked'::mainspring.task_state]))))))
UNION ALL
 SELECT 'I11'::text AS rule,
    'a task is done and its input is open or closed later'::text AS detail,
    task_view.process_id,
    task_view.id AS task
   FROM mainspring.task_view
  WHERE ((task_view.state = 'done'::mainspring.task_state) AND (task_view.stopping = 0) AND (task_view.actor <> '@first_of'::text) AND ((task_view.open_inputs > 0) OR (task_view.last_no > task_view.done_no)))
UNION ALL
 SELECT 'I12'::text AS rule,
    'an input is gone'::text AS detail,
    task_view.process_id,
    task_view.id AS task
   FROM mainspring.task_view
  WHERE ((task_view.gone > 0) AND (task_view.state <> 'superseded'::mainspring.task_state))
UNION ALL
 SELECT 'I13'::text AS rule,
    'a signal was taken by a task that is not done, or by two'::text AS detail,
    s.process_id,
    s.taken_by AS task
   FROM (mainspring.signal s
     LEFT JOIN mainspring.task t ON (((t.process_id = s.process_id) AND (t.id = s.taken_by))))
  WHERE ((s.taken_by IS NOT NULL) AND (t.id IS NOT NULL) AND ((t.state <> ALL (ARRAY['done'::mainspring.task_state, 'cancelled'::mainspring.task_state, 'superseded'::mainspring.task_state])) OR (t.generation <> s.taken_generation) OR (EXISTS ( SELECT
           FROM mainspring.signal o
          WHERE ((o.process_id = s.process_id) AND (o.taken_by = s.taken_by) AND (o.no <> s.no))))));

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
    created_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
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
    created_at timestamp with time zone DEFAULT mainspring.now() NOT NULL
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
          WHERE (w.id = l.worker_id)))));

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

ALTER TABLE ONLY mainspring.edge ATTACH PARTITION mainspring.edge_other DEFAULT;

ALTER TABLE ONLY mainspring.history ATTACH PARTITION mainspring.history_other DEFAULT;

ALTER TABLE ONLY mainspring.task ATTACH PARTITION mainspring.task_other DEFAULT;

ALTER TABLE ONLY mainspring.actor
    ADD CONSTRAINT actor_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.counter
    ADD CONSTRAINT counter_pkey PRIMARY KEY (actor, name, minute);

ALTER TABLE ONLY mainspring.edge
    ADD CONSTRAINT edge_pkey PRIMARY KEY (process_id, promise, task);

ALTER TABLE ONLY mainspring.edge_other
    ADD CONSTRAINT edge_other_pkey PRIMARY KEY (process_id, promise, task);

ALTER TABLE ONLY mainspring.external
    ADD CONSTRAINT external_pkey PRIMARY KEY (task);

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

ALTER TABLE ONLY mainspring.parked_task
    ADD CONSTRAINT parked_task_pkey PRIMARY KEY (task);

ALTER TABLE ONLY mainspring.part
    ADD CONSTRAINT part_pkey PRIMARY KEY (queue, worker_id);

ALTER TABLE ONLY mainspring.process
    ADD CONSTRAINT process_one_per_key UNIQUE (type, key);

ALTER TABLE ONLY mainspring.process
    ADD CONSTRAINT process_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.process_type
    ADD CONSTRAINT process_type_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.recurring
    ADD CONSTRAINT recurring_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.repair
    ADD CONSTRAINT repair_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.scope
    ADD CONSTRAINT scope_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.setting_change
    ADD CONSTRAINT setting_change_pkey PRIMARY KEY (id);

ALTER TABLE ONLY mainspring.signal
    ADD CONSTRAINT signal_pkey PRIMARY KEY (process_id, name, id);

ALTER TABLE ONLY mainspring.task
    ADD CONSTRAINT task_pkey PRIMARY KEY (process_id, id);

ALTER TABLE ONLY mainspring.task_other
    ADD CONSTRAINT task_other_pkey PRIMARY KEY (process_id, id);

ALTER TABLE ONLY mainspring.template
    ADD CONSTRAINT template_pkey PRIMARY KEY (name);

ALTER TABLE ONLY mainspring.visit
    ADD CONSTRAINT visit_pkey PRIMARY KEY (key, queue, shard);

ALTER TABLE ONLY mainspring.wait
    ADD CONSTRAINT wait_pkey PRIMARY KEY (task);

ALTER TABLE ONLY mainspring.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

CREATE INDEX edge_of_task ON ONLY mainspring.edge USING btree (process_id, task, pos);

CREATE INDEX edge_other_process_id_task_pos_idx ON mainspring.edge_other USING btree (process_id, task, pos);

CREATE INDEX external_of_process ON mainspring.external USING btree (process_id, name);

CREATE INDEX history_failed ON ONLY mainspring.history USING btree (queue, error_type, ended_at) WHERE (outcome = ANY (ARRAY['retry'::mainspring.outcome, 'parked'::mainspring.outcome]));

CREATE INDEX history_time ON ONLY mainspring.history USING btree (queue, ended_at);

CREATE INDEX history_other_queue_ended_at_idx ON mainspring.history_other USING btree (queue, ended_at);

CREATE INDEX history_other_queue_error_type_ended_at_idx ON mainspring.history_other USING btree (queue, error_type, ended_at) WHERE (outcome = ANY (ARRAY['retry'::mainspring.outcome, 'parked'::mainspring.outcome]));

CREATE INDEX history_searchable ON ONLY mainspring.history USING gin (searchable) WHERE (searchable IS NOT NULL);

CREATE INDEX history_other_searchable_idx ON mainspring.history_other USING gin (searchable) WHERE (searchable IS NOT NULL);

CREATE INDEX lease_of_worker ON mainspring.lease USING btree (worker_id);

CREATE INDEX parked_task_group ON mainspring.parked_task USING btree (type, actor, fingerprint, task);

CREATE INDEX parked_task_of_process ON mainspring.parked_task USING btree (process_id);

CREATE INDEX process_attrs ON mainspring.process USING gin (attrs jsonb_path_ops);

CREATE INDEX process_created ON mainspring.process USING btree (created_at);

CREATE INDEX process_inconsistent ON mainspring.process USING btree (inconsistent_at) WHERE (inconsistent_at IS NOT NULL);

CREATE INDEX process_of_parent ON mainspring.process USING btree (parent_process) WHERE (parent_process IS NOT NULL);

CREATE INDEX process_search ON mainspring.process USING btree (type, state, created_at);

CREATE INDEX reach_of_worker ON mainspring.reach USING btree (worker_id);

CREATE INDEX repair_of_process ON mainspring.repair USING btree (process_id);

CREATE INDEX scope_of_process ON mainspring.scope USING btree (process_id);

CREATE INDEX visit_due ON mainspring.visit USING btree (queue, priority, due_at, key) WHERE ((pass IS NULL) AND (parked_at IS NULL));

CREATE INDEX visit_group ON mainspring.visit USING btree (queue, grp, priority, due_at, key) WHERE ((grp IS NOT NULL) AND (pass IS NULL) AND (parked_at IS NULL));

CREATE INDEX visit_held ON mainspring.visit USING btree (shard) WHERE (pass IS NOT NULL);

CREATE INDEX visit_parked ON mainspring.visit USING btree (queue, parked_at, key) WHERE (parked_at IS NOT NULL);

CREATE INDEX wait_of_process ON mainspring.wait USING btree (process_id);

ALTER INDEX mainspring.edge_pkey ATTACH PARTITION mainspring.edge_other_pkey;

ALTER INDEX mainspring.edge_of_task ATTACH PARTITION mainspring.edge_other_process_id_task_pos_idx;

ALTER INDEX mainspring.history_pkey ATTACH PARTITION mainspring.history_other_pkey;

ALTER INDEX mainspring.history_time ATTACH PARTITION mainspring.history_other_queue_ended_at_idx;

ALTER INDEX mainspring.history_failed ATTACH PARTITION mainspring.history_other_queue_error_type_ended_at_idx;

ALTER INDEX mainspring.history_searchable ATTACH PARTITION mainspring.history_other_searchable_idx;

ALTER INDEX mainspring.task_pkey ATTACH PARTITION mainspring.task_other_pkey;

ALTER TABLE ONLY mainspring.operation_item
    ADD CONSTRAINT operation_item_operation_id_fkey FOREIGN KEY (operation_id) REFERENCES mainspring.operation(id) ON DELETE CASCADE;

ALTER TABLE ONLY mainspring.part
    ADD CONSTRAINT part_queue_fkey FOREIGN KEY (queue) REFERENCES mainspring.queue(name) ON DELETE CASCADE;

ALTER TABLE ONLY mainspring.part
    ADD CONSTRAINT part_worker_id_fkey FOREIGN KEY (worker_id) REFERENCES mainspring.worker(id) ON DELETE CASCADE;
