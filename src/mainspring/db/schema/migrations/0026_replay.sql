-- Snapshots and replays. An event may say what an entity is now, for one consumer that asked ('snapshot'). A delivery may be one of
-- a replay: `replay` is the operation. Events of kinds with keep_events are kept by day, as history is, and dropped with their day.
alter table mainspring.event drop constraint event_what_check;
alter table mainspring.event add constraint event_what_check check (what in ('saved', 'state', 'deleted', 'snapshot')) not valid;
alter table mainspring.delivery add column replay bigint;
create table mainspring.event_kept (
  day date not null default (mainspring.now() at time zone 'UTC')::date,
  shard integer not null,
  kind text collate "C" not null,
  key text collate "C" not null,
  number bigint not null,
  stage text collate "C",
  what text not null,
  entity_version bigint,
  state_version bigint,
  body jsonb,
  run bigint,
  created_at timestamptz not null default mainspring.now()
) partition by range (day);
create table mainspring.event_kept_other partition of mainspring.event_kept default;
create index event_kept_number on mainspring.event_kept (kind, number);
