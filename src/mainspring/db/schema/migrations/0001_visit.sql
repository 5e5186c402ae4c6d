-- The kernel's tables: visits, leases, workers, queues, history, limits, operations, recurring visits.
-- Text that is compared and paged by is collate "C": one order in every database, the same as Python's.

create type mainspring.visit_state as enum ('scheduled', 'waiting', 'running', 'parked');
create type mainspring.outcome as enum ('done', 'again', 'retry', 'parked', 'cancelled', 'expired');
create type mainspring.operation_state as enum ('running', 'paused', 'cancelled', 'done', 'failed');

-- One row: what was fixed at install. Changing it is a stop-everything operation.
create table mainspring.install (
  id boolean primary key default true check (id),     -- one row only
  shard_count integer not null check (shard_count between 1 and 65536),
  installed_at timestamptz not null default now()
);
insert into mainspring.install (shard_count) values (1024);

-- The shard of a route: the first four bytes of the SHA-256 of its UTF-8 text, modulo the shard count.
-- SHA-256 is the same on every version and in every language (S12); Python has its twin in kernel/visit.py.
create function mainspring.shard(route text, shard_count integer) returns integer
  language sql immutable strict parallel safe
  return (
    (get_byte(sha256(convert_to(route, 'UTF8')), 0)::bigint << 24)
    + (get_byte(sha256(convert_to(route, 'UTF8')), 1) << 16)
    + (get_byte(sha256(convert_to(route, 'UTF8')), 2) << 8)
    + get_byte(sha256(convert_to(route, 'UTF8')), 3)
  ) % shard_count;

-- Replaced on every migrate (functions/now.sql); here because column defaults name it.
create function mainspring.now() returns timestamptz language sql stable parallel safe as 'select pg_catalog.now()';

create table mainspring.queue (
  name text collate "C" primary key check (name <> '' and octet_length(name) <= 200),
  pool text collate "C" not null default 'default',
  kind text not null default 'task',
  turns text collate "C",                             -- a class: of all its queues, one run per key at a time
  hold_after interval not null default '1 second',    -- a run longer than this is marked in its row; 0: at start
  work_timeout interval,                              -- a hold older than this is overtaken; only the actor's beat moves it
  crash_limit integer not null default 3,             -- parked after this many deaths of a worker that held it
  concurrency integer check (concurrency >= 0),       -- at most so many runs at once, over all workers
  rate double precision check (rate >= 0),            -- at most so many starts a second, over all workers
  group_concurrency integer check (group_concurrency >= 0),
  group_rate double precision check (group_rate >= 0),
  searchable text[] not null default '{}',            -- payload fields whose values history indexes
  declared jsonb not null default '{}',               -- what the code said last; a change of it overrules the operator
  paused_at timestamptz,
  created_at timestamptz not null default now(),
  changed_at timestamptz not null default now()
);

create table mainspring.worker (
  id uuid primary key,
  beat bigint not null default 0,                     -- a counter, never a time: any change of it is a sign of life
  pool text collate "C" not null,
  queues text[] not null,
  slots integer not null,
  free integer not null default 0,                    -- slots without work: what a busy worker may fill
  asleep boolean not null default false,              -- offers notify only when somebody sleeps
  host text not null,
  process integer not null,
  started_at timestamptz not null default now()
) with (fillfactor = 50);

-- How far a worker had read in each level, written with every page. After its death this tells the suspects:
-- visits that it may have been running without a hold. Insert-only, so a held-back vacuum costs readers nothing.
create table mainspring.reach (
  worker_id uuid not null,
  queue text collate "C" not null,
  priority smallint not null,
  due_at timestamptz not null
);
create index reach_of_worker on mainspring.reach (worker_id);

create table mainspring.lease (
  pool text collate "C" not null,
  shard integer not null,
  worker_id uuid,
  epoch bigint not null default 0,
  offered_to uuid,                                    -- freed for this worker; anyone may take it if that one is gone
  suspect_of uuid,                                    -- the dead worker whose reach names the suspects
  given_at timestamptz,
  primary key (pool, shard)
) with (fillfactor = 50);
create index lease_of_worker on mainspring.lease (worker_id);

create table mainspring.visit (
  shard integer not null,
  key text collate "C" not null check (key <> '' and octet_length(key) <= 1300),
  queue text collate "C" not null,
  id uuid not null,                                   -- stable over retries, recovery, parking and putting back
  grp text collate "C",
  priority smallint not null default 5 check (priority between 0 and 9),
  due_at timestamptz not null default mainspring.now() check (isfinite(due_at)),
  version bigint not null,                            -- a random token: written by every offer, consumed by one settle
  attempt integer not null default 0,                 -- failed runs so far
  crashes integer not null default 0,                 -- deaths of a worker that held it
  work_timeouts integer not null default 0,
  pass bigint,                                        -- held: the run that holds it
  holder uuid,                                        -- the worker of that run
  started_at timestamptz,                             -- when the held run began
  held_until timestamptz,                             -- the work timeout; null: as long as the holder's row lives
  expires_at timestamptz,                             -- not started after this
  parked_at timestamptz,                              -- needs an operator
  offered_while_parked boolean not null default false,
  error text,
  payload jsonb not null,
  created_at timestamptz not null default mainspring.now(),
  changed_at timestamptz not null default mainspring.now(),
  primary key (shard, key, queue)
) with (
  fillfactor = 90,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.2
);
create index visit_due on mainspring.visit (queue, priority, due_at, key)
  where pass is null and parked_at is null;
create index visit_group on mainspring.visit (queue, grp, priority, due_at, key)
  where grp is not null and pass is null and parked_at is null;
create index visit_held on mainspring.visit (shard) where pass is not null;
create index visit_parked on mainspring.visit (queue, parked_at, key) where parked_at is not null;

-- What was run. One row a run, written by the settle that ended it; dropped by age in whole days.
create table mainspring.history (
  day date not null,                                  -- UTC day of the run's start
  run bigint not null,
  id uuid not null,
  queue text collate "C" not null,
  key text collate "C" not null,
  grp text collate "C",
  priority smallint not null,
  attempt integer not null,                           -- 1 for the first
  outcome mainspring.outcome not null,
  superseded boolean not null default false,          -- the visit was offered again meanwhile and stayed
  worker_id uuid not null,
  created_at timestamptz not null,
  due_at timestamptz not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  duration_ms double precision not null,
  error_type text,
  error text,
  payload jsonb not null,
  result jsonb,
  searchable text[],                                  -- 'field=value' of the fields that the queue declares
  primary key (key, run, day)                         -- a run once; and all runs of a key
) partition by range (day);
create table mainspring.history_other partition of mainspring.history default;
create index history_time on mainspring.history (queue, ended_at);
create index history_failed on mainspring.history (queue, error_type, ended_at) where outcome in ('retry', 'parked');
create index history_searchable on mainspring.history using gin (searchable) where searchable is not null;

-- A worker's part of a queue's limits. Parts never add up to more than the limit (checked under the queue row's lock).
create table mainspring.part (
  queue text collate "C" not null references mainspring.queue (name) on delete cascade,
  worker_id uuid not null references mainspring.worker (id) on delete cascade,
  size integer not null default 0,
  rate double precision not null default 0,
  wants boolean not null default false,
  primary key (queue, worker_id)
);

-- An operator's bulk job: it runs as a visit, one page of items a step.
create table mainspring.operation (
  id bigint generated always as identity primary key,
  kind text not null,
  source text not null,                               -- who asked
  filter jsonb not null default '{}',
  state mainspring.operation_state not null default 'running',
  total bigint,
  done bigint not null default 0,
  failed bigint not null default 0,
  position jsonb,                                     -- where the next step begins
  error text,
  created_at timestamptz not null default now(),
  changed_at timestamptz not null default now(),
  ended_at timestamptz
);
create table mainspring.operation_item (
  operation_id bigint not null references mainspring.operation (id) on delete cascade,
  number bigint not null,
  queue text not null,
  key text not null,
  error text,                                         -- null: done
  primary key (operation_id, number)
);

-- A visit that comes again by a cron line.
create table mainspring.recurring (
  name text collate "C" primary key,
  queue text collate "C" not null,
  cron text not null,
  zone text not null default 'UTC',
  payload jsonb not null,
  priority smallint not null default 5,
  paused_at timestamptz,
  last_at timestamptz,
  last_id uuid,
  created_at timestamptz not null default now(),
  changed_at timestamptz not null default now()
);
