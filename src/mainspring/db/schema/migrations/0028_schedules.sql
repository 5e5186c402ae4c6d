-- Schedules: what a tick starts (null: of the release before, whose queue it is), what is made up for after a silence, the argument
-- that gets the tick's time, a group. `declared`: as code declares it; null: made at run time. `changed_by`: who changed it since.
-- `revision` counts changes: a tick is made of what was read, or not at all. `make_up`: once, what a pause left out.
alter table mainspring.recurring
  add column target text collate "C",
  add column grp text collate "C",
  add column catch_up text not null default 'one' check (catch_up in ('skip', 'one', 'all')),
  add column catch_up_max integer not null default 100 check (catch_up_max between 1 and 10000),
  add column tick_argument text,
  add column declared jsonb,
  add column changed_by text,
  add column revision bigint not null default 0,
  add column paused_until timestamptz,
  add column pause_reason text,
  add column make_up text check (make_up in ('one', 'all'));
update mainspring.recurring set target = queue, declared = '{}';
