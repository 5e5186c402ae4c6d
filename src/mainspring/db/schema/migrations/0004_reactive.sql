-- Reactive tasks: params, who uses and produces them, triggers as data, the state of each task, pools, evaluations.
-- Values are exact: instants are microseconds since 1970 UTC, integers are themselves (both in num), versions are text.
-- Lock order: param rows (by name) < reactive_task rows (by name) < reactive_pool < visits < logs.

-- A param is a value, not an event: one row, whatever happens to it.
create table mainspring.param (
  name text collate "C" primary key check (name ~ '^[^.].*\.[^.]+$' and octet_length(name) <= 300),
  kind text not null check (kind in ('instant', 'integer', 'version')),
  num bigint,
  ver text check (octet_length(ver) <= 1000),
  rewinds integer not null default 0,                 -- how often it was moved back: what was seen before is known by it
  changed_at timestamptz,
  changed_by text,
  why text,
  warn_ahead interval not null default '1 day',       -- a value further ahead of the clock is warned about
  ahead boolean not null default false,               -- its value was, when it was set
  created_at timestamptz not null default now(),
  check (case when kind = 'version' then num is null else ver is null end),
  check (kind <> 'instant' or num between 0 and 221845392000000000 - 1)    -- 1970 to 9000
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- What was set, by whom and why; the newest row of a param is its value. Dropped by age.
create table mainspring.param_log (
  id bigint generated always as identity primary key,
  param text collate "C" not null,
  num bigint,
  ver text,
  old_num bigint,
  old_ver text,
  is_rewind boolean not null default false,
  changed_by text,
  why text,
  at timestamptz not null
);
create index param_log_of_param on mainspring.param_log (param, id);
create index param_log_age on mainspring.param_log using brin (at);

-- Moved back: kept until every consumer has passed it, so apart from the log.
create table mainspring.param_rewind (
  param text collate "C" not null,
  number integer not null,                            -- param.rewinds after it
  num bigint,
  ver text,
  old_num bigint,
  old_ver text,
  chunks bigint[] not null default '{}',              -- starts of restated chunks (or numbers), as values
  changed_by text,
  why text,
  at timestamptz not null,
  primary key (param, number)
);

-- The inverted index: these two tables, never a copy in memory.
create table mainspring.uses (
  param text collate "C" not null,
  task text collate "C" not null,
  primary key (param, task)
);
create index uses_of_task on mainspring.uses (task, param);
create table mainspring.produces (
  param text collate "C" not null,
  task text collate "C" not null,
  primary key (param, task)
);
create index produces_of_task on mainspring.produces (task, param);

-- A trigger and the options that decide with it; immutable, so a copy by fingerprint is never stale.
create table mainspring.definition (
  fingerprint text collate "C" primary key,
  format integer not null,
  tree jsonb not null,
  options jsonb not null
);

create table mainspring.reactive_pool (
  pool text collate "C" primary key,
  cap integer check (cap >= 1),                       -- admitted firings at once; null: as many as workers have slots
  reserve_max interval not null default '2 minutes',
  declared jsonb not null default '{}',
  changed_at timestamptz not null default now()
);

-- One row a reactive task. Queued or running is one column: firing. turn is a token: a verdict on an older turn starts nothing.
create table mainspring.reactive_task (
  task text collate "C" primary key check (task <> '' and octet_length(task) <= 200),
  pool text collate "C" not null,
  release bigint not null,
  fingerprint text collate "C" not null,              -- of its definition
  declared text collate "C" not null,                 -- of all that the code says of it
  priority smallint not null default 5 check (priority between 0 and 9),
  turn bigint not null,
  firing bigint,
  fired_at timestamptz,
  last_fired_at timestamptz,                          -- of the last regular firing, kept after its end
  cause text,
  kind text check (kind in ('regular', 'manual')),
  record boolean,                                     -- whether a success replaces seen
  captured jsonb,                                     -- {param: [value, rewinds]} as the check saw it; null: no value
  base bigint,                                        -- the recorded success whose seen the check compared with
  admitted_at timestamptz,
  run bigint,
  started_at timestamptz,
  seen jsonb not null default '{}',                   -- {param: [value, rewinds]} of the last recorded success
  seen_run bigint,                                    -- its firing, or the token of a repair
  repair jsonb,                                       -- made while in flight; laid over captured at the success
  request jsonb,                                      -- a manual run that was asked for
  failures integer not null default 0,
  error text,
  retry_at timestamptz,
  succeeded_at timestamptz,
  ended_at timestamptz,
  checked_at timestamptz,
  verdict boolean,                                    -- of the last check; history only, time may have turned it
  leaves jsonb,
  since timestamptz,                                  -- when the verdict last changed
  kept_back_at timestamptz,                           -- while admitted: when it first kept another back (reservation)
  debounce interval not null default '0',             -- a change is looked at so much later
  expect_within interval,
  expected_from timestamptz,                          -- registered or resumed: an expectation counts from here at the earliest
  missed_at timestamptz,
  paused_at timestamptz,
  missing_since timestamptz,                          -- no living worker declares it
  retired_at timestamptz,
  created_at timestamptz not null default now(),
  check (run is null or firing is not null),
  check (admitted_at is null or firing is not null),
  check ((captured is null) = (firing is null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index reactive_ready on mainspring.reactive_task (pool, priority desc, fired_at, task) where firing is not null;
create index reactive_missed on mainspring.reactive_task (task) where missed_at is not null;

-- Producers that have just ended in a pool with a cap: until their consumers were checked, slots stay reserved. Rows live 2 s.
create table mainspring.reactive_ended (
  pool text collate "C" not null,
  task text collate "C" not null,
  params text[] not null,
  at timestamptz not null
);
create index reactive_ended_of_pool on mainspring.reactive_ended (pool, at);

-- A set of definitions, numbered when it is first seen: an old worker that restarts changes nothing.
create table mainspring.reactive_release (
  number bigint generated always as identity primary key,
  fingerprint text collate "C" not null unique,
  tasks text[] not null,
  created_at timestamptz not null default now()
);
-- Which release a living process carries.
create table mainspring.reactive_instance (
  id uuid primary key,
  release bigint not null,
  pool text collate "C" not null,
  seen_at timestamptz not null
);

-- Checks whose outcome differed from the one before. Dropped by age.
create table mainspring.evaluation (
  id bigint generated always as identity primary key,
  task text collate "C" not null,
  at timestamptz not null,
  verdict boolean not null,
  fired boolean not null,
  leaves jsonb not null,
  cause text
);
create index evaluation_of_task on mainspring.evaluation (task, id);
create index evaluation_age on mainspring.evaluation using brin (at);
