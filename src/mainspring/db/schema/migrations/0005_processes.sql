-- Processes: dynamic graphs of tasks. A promise is the outcome of a task's row; being ready is having a visit.
-- A task row is inserted once and, at its end, updated once: what changes more often (waits, parked and external
-- tasks) has tables of its own. No index names a task's state, so that the update at its end stays on its page.

create type mainspring.process_state as enum ('open', 'finished', 'cancelled');
create type mainspring.task_state as enum ('open', 'external', 'parked', 'done', 'cancelled', 'superseded');
create type mainspring.promise_outcome as enum ('ok', 'err');
create type mainspring.edge_kind as enum ('value', 'order', 'outcome', 'handle');
create type mainspring.external_kind as enum ('signal', 'timer', 'child');
create type mainspring.scope_state as enum ('open', 'failed', 'undoing', 'closed');

-- The order of ends: a cause has a smaller number than its effects, whatever the clocks say. Never cached.
create sequence mainspring.done_no cache 1;

create table mainspring.process (
  id uuid primary key,                                -- time-ordered
  type text collate "C" not null,
  key text collate "C" not null check (key <> '' and octet_length(key) <= 1024),  -- the user's id; else the id
  state mainspring.process_state not null default 'open',
  root uuid not null,                                 -- the first task; its promise is the process's result
  root_closed boolean not null default false,         -- from here on every end looks whether it was the last
  generation integer not null default 0,              -- counts restarts
  inconsistent_at timestamptz,                        -- a mark beside the state: other branches go on
  inconsistent text,
  closing_at timestamptz,                             -- a structural change asks decisions to leave the row alone
  start jsonb not null,                               -- the arguments of the first task
  attrs jsonb not null default '{}',
  parent_process uuid,
  parent_task uuid,
  parent_generation integer,
  horizon bigint not null default 0,                  -- the greatest done_no that was pruned
  created_at timestamptz not null default mainspring.now(),
  ended_at timestamptz,
  -- Neither column is ever updated: that would turn the shared lock of a decision into a conflict.
  constraint process_one_per_key unique (type, key)
) with (fillfactor = 80);
create index process_search on mainspring.process (type, state, created_at);
create index process_created on mainspring.process (created_at);
create index process_attrs on mainspring.process using gin (attrs jsonb_path_ops);
create index process_of_parent on mainspring.process (parent_process) where parent_process is not null;
create index process_inconsistent on mainspring.process (inconsistent_at) where inconsistent_at is not null;

create table mainspring.task (
  process_id uuid not null,
  id uuid not null,
  created_by uuid,                                    -- null: the root
  creator_generation integer not null default 0,
  promise uuid not null,                              -- what it fulfils: its own id, or one inherited by a tail call
  actor text collate "C" not null,
  state mainspring.task_state not null default 'open',
  edges integer not null default 0,                   -- of all kinds
  waits integer not null default 0,                   -- inputs that were open when it was made (or last reset)
  args jsonb not null,
  args_version integer not null default 1,
  options jsonb,                                      -- delay, priority, timeouts; null: none
  outcome mainspring.promise_outcome,                 -- of the promise with this id
  result jsonb,
  error jsonb,
  generation integer not null default 0,
  scope_id uuid,
  undo jsonb,
  step bigint not null default 0,                     -- of a loop: tail calls so far
  done_no bigint,
  outcome_no bigint,
  created_at timestamptz not null default mainspring.now(),
  changed_at timestamptz not null default mainspring.now(),
  primary key (process_id, id)
) partition by range (process_id);
create table mainspring.task_other partition of mainspring.task default with (fillfactor = 60);

-- What a task waits for, in the order of its arguments. Written once, kept for restarts.
create table mainspring.edge (
  process_id uuid not null,
  promise uuid not null,
  task uuid not null,
  kind mainspring.edge_kind not null,
  pos integer not null,
  primary key (process_id, promise, task)
) partition by range (process_id);
create index edge_of_task on mainspring.edge (process_id, task, pos);
create table mainspring.edge_other partition of mainspring.edge default;

-- Open inputs left, of tasks that began with two or more (a first_of: one). Its own table is its own class of locks.
create table mainspring.wait (
  task uuid primary key,
  process_id uuid not null,
  n integer not null
) with (fillfactor = 50);
create index wait_of_process on mainspring.wait (process_id);

-- Tasks that wait for something outside the graph.
create table mainspring.external (
  task uuid primary key,
  process_id uuid not null,
  kind mainspring.external_kind not null,
  name text collate "C",                              -- of the signal
  due_at timestamptz,                                 -- a timer's time, a signal's timeout
  child uuid                                          -- the child process
);
create index external_of_process on mainspring.external (process_id, name);

-- Tasks that need an operator, for groups and filters.
create table mainspring.parked_task (
  task uuid primary key,
  process_id uuid not null,
  type text collate "C" not null,
  actor text collate "C" not null,
  fingerprint text collate "C" not null,
  error_type text,
  error text,
  parked_at timestamptz not null default mainspring.now()
);
create index parked_task_group on mainspring.parked_task (type, actor, fingerprint, task);
create index parked_task_of_process on mainspring.parked_task (process_id);

create table mainspring.scope (
  id uuid primary key,
  process_id uuid not null,
  parent uuid,
  opened_by uuid not null,
  state mainspring.scope_state not null default 'open',
  on_error jsonb,
  promise uuid,                                       -- what the handler fulfils
  error jsonb,                                        -- why it failed
  deadline_at timestamptz,
  created_at timestamptz not null default mainspring.now()
);
create index scope_of_process on mainspring.scope (process_id);

create table mainspring.signal (
  process_id uuid not null,
  name text collate "C" not null check (name <> '' and octet_length(name) <= 200),
  id text collate "C" not null check (id <> '' and octet_length(id) <= 200),
  no bigint generated always as identity,             -- the order in which they are taken
  payload jsonb,
  sent_by text not null default '',
  sent_at timestamptz not null default mainspring.now(),
  taken_by uuid,
  taken_generation integer,
  primary key (process_id, name, id)
);

-- Settings of actors and process types: what the code declares, overruled by operators until the declaration changes.
create table mainspring.actor (
  name text collate "C" primary key,
  settings jsonb not null default '{}',
  declared jsonb not null default '{}',
  changed_at timestamptz not null default mainspring.now()
);
create table mainspring.process_type (
  name text collate "C" primary key,
  settings jsonb not null default '{}',
  declared jsonb not null default '{}',
  changed_at timestamptz not null default mainspring.now()
);
create table mainspring.setting_change (
  id bigint generated always as identity primary key,
  subject text not null,                              -- 'actor charge', 'process order'
  source text not null,
  before jsonb not null,
  after jsonb not null,
  changed_at timestamptz not null default mainspring.now()
);

-- Filters of an operator with their action, by name.
create table mainspring.template (
  name text collate "C" primary key,
  kind text not null,
  filter jsonb not null default '{}',
  created_by text not null default '',
  created_at timestamptz not null default mainspring.now()
);

-- What recovery did, per actor and minute.
create table mainspring.counter (
  actor text collate "C" not null,
  name text collate "C" not null,
  minute timestamptz not null,
  n bigint not null default 0,
  primary key (actor, name, minute)
);

-- Repairs and defects of processes, with their source: 'automatic', or 'operation 7'.
create table mainspring.repair (
  id bigint generated always as identity primary key,
  process_id uuid not null,
  task uuid,
  rule text not null,
  detail text not null default '',
  source text not null default 'automatic',
  repaired_at timestamptz not null default mainspring.now()
);
create index repair_of_process on mainspring.repair (process_id);
