-- Locks that processes hold over the steps of a scope. Who asks has a row, in the order of asking; one of each name holds it.
-- A row says only what was asked and granted: whether it still counts follows from its scope (view process_lock_live).
create table mainspring.process_lock (
  no bigint generated always as identity primary key,
  name text collate "C" not null,
  process_id uuid not null,
  task uuid not null,
  generation integer not null,
  scope_id uuid not null,
  asked_at timestamptz not null,
  held_at timestamptz,
  constraint process_lock_once unique (task, generation)
);
create unique index process_lock_one_holder on mainspring.process_lock (name) where held_at is not null;
create index process_lock_in_line on mainspring.process_lock (name, no);
create index process_lock_of_scope on mainspring.process_lock (scope_id);
create index process_lock_of_process on mainspring.process_lock (process_id);
