-- Entities and stages: kinds and their catalogue of stages, private states, events and their deliveries, documents.
-- Shards are those of the visits: shard(key), where the key is the entity's id as canonical text.

-- What the code declares of a kind of entities. Workers read it at their beats.
create table mainspring.kind (
  name text collate "C" primary key check (name ~ '^[A-Za-z][A-Za-z0-9_.-]{0,39}$'),
  pool text collate "C" not null default 'default',
  source text not null,                               -- schema.table, 'document' or 'dao'
  keys text[] not null default '{}',                  -- key columns, in the order of the id
  key_types text[] not null default '{}',             -- their types, with schema: ids become canonical through them
  version_column text not null default 'version',     -- or 'xmin'
  capture text not null default 'statement' check (capture in ('statement', 'row', 'always', 'call')),
  ignored text[] not null default '{}',               -- columns whose changes offer nothing
  notify boolean not null default true,               -- writers wake sleeping workers
  generation bigint not null default 1,               -- rises with every stage that comes
  declared jsonb not null default '{}',
  crawl_every interval,
  created_at timestamptz not null default now(),
  changed_at timestamptz not null default now()
);

-- The catalogue: what a system visit asks comes from here, never from a worker's own code alone.
create table mainspring.stage (
  kind text collate "C" not null references mainspring.kind (name) on delete cascade,
  name text collate "C" not null,
  interest text[],                                    -- null: every field
  sees_own boolean not null default false,
  was text[] not null default '{}',
  since bigint not null default 1,                    -- the generation it came with
  declared jsonb not null default '{}',
  created_at timestamptz not null default now(),
  retired_at timestamptz,
  primary key (kind, name)
);

-- Who gets the events of a kind: a stage's own saved hook (by the stage's name), a sink.
create table mainspring.consumer (
  kind text collate "C" not null references mainspring.kind (name) on delete cascade,
  name text collate "C" not null,
  declared jsonb not null default '{}',
  created_at timestamptz not null default now(),
  retired_at timestamptz,
  primary key (kind, name)
);

-- Cache 1: numbers rise in commit order, because whoever draws one has the entity's row locked.
create sequence mainspring.state_version as bigint cache 1;
create sequence mainspring.event_number as bigint cache 1;

-- A stage's private state of an entity: JSON in body, or a protobuf message with its type.
create table mainspring.state (
  shard integer not null,
  kind text collate "C" not null,
  key text collate "C" not null,
  stage text collate "C" not null,
  version bigint not null default nextval('mainspring.state_version'),
  schema integer not null default 1,                  -- of the state's type; an older one is upgraded when read
  body jsonb,
  message bytea,
  message_type text,
  changed_at timestamptz not null default mainspring.now(),
  primary key (shard, kind, key, stage)
) with (fillfactor = 90);

-- The outbox: what was saved, written by the transaction that saved it.
create table mainspring.event (
  shard integer not null,
  kind text collate "C" not null,
  key text collate "C" not null,
  number bigint not null default nextval('mainspring.event_number'),
  stage text collate "C",                             -- whose save; null: nobody's (a delete)
  what text not null check (what in ('saved', 'state', 'deleted')),
  entity_version bigint,
  state_version bigint,
  body jsonb,
  run bigint,
  created_at timestamptz not null default mainspring.now(),
  primary key (shard, kind, key, number)
);
create index event_age on mainspring.event (created_at);

-- One row for each event and consumer that still has to get it.
create table mainspring.delivery (
  shard integer not null,
  kind text collate "C" not null,
  key text collate "C" not null,
  consumer text collate "C" not null,
  number bigint not null,
  primary key (shard, kind, consumer, key, number)
);

-- Managed documents: a table of entities that is ours.
create table mainspring.document (
  kind text collate "C" not null,
  key text collate "C" not null check (key <> '' and octet_length(key) <= 1300),
  version bigint not null default 1,
  body jsonb not null check (jsonb_typeof(body) = 'object'),
  created_at timestamptz not null default mainspring.now(),
  changed_at timestamptz not null default mainspring.now(),
  primary key (kind, key)
) with (fillfactor = 90);

-- The server's timeline when numbers were last drawn: after a failover they jump ahead.
alter table mainspring.install add column timeline integer;
