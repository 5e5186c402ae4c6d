-- How far a worker had read of visits that are due at the same time, as those of one bulk are. Null: all of them.
alter table mainspring.reach add column key text collate "C";

-- Whether a worker finds what is in bundles (below). One of the release before would open them all for each key that it
-- looks for: while there is one in a pool, its workers write none.
alter table mainspring.worker add column bundles boolean not null default false;

-- Runs that were simply done are most of history. Many of them become one row here, a bundle: a row each cost the server
-- more than all the rest of a settle, and three times the room. What a bundle has in common is a column, the rest arrays
-- in one order. Its keys are ids of the same 65 seconds (they begin alike), so a key is found in a few bundles.
-- history_run has the others, a row each; the view mainspring.history shows both.

-- Whoever asks for a result has this view and then wants history. It is replaced below, and whoever took history first would
-- meet them half way, time and again while they are many. (Nothing is changed: this only takes the lock.)
alter view if exists mainspring.visit_status reset (security_barrier);
alter table mainspring.history rename to history_run;

create table mainspring.history_bundle (
  day date not null,                                  -- UTC day of its first start
  queue text collate "C" not null,
  priority smallint not null,
  worker_id uuid not null,
  kin text collate "C" not null,                      -- the first eight characters of its keys
  first_key text collate "C" not null,                -- bounds of its keys and ends: none lies outside
  last_key text collate "C" not null,
  first_end timestamptz not null,
  last_end timestamptz not null,
  size integer not null,                              -- how many runs
  took_us bigint not null,                            -- by all of them together
  runs bigint[] not null,
  ids uuid[] not null,                                -- a key is its id as text
  due_at timestamptz[] not null,
  created_at timestamptz[] not null,
  started_us bigint[] not null,                       -- since 1970
  took bigint[] not null,                             -- microseconds
  payloads jsonb[] not null
) partition by range (day);
create table mainspring.history_bundle_other partition of mainspring.history_bundle default;
create index history_bundle_key on mainspring.history_bundle (kin, last_key, first_key);
create index history_bundle_end on mainspring.history_bundle (queue, last_end, first_end);
create index history_bundle_begin on mainspring.history_bundle (queue, first_end, last_end);
-- Compressing would cost more than writing.
alter table mainspring.history_bundle
  alter runs set storage external, alter ids set storage external, alter due_at set storage external,
  alter created_at set storage external, alter started_us set storage external, alter took set storage external,
  alter payloads set storage external;

-- The whole of history under its old name: functions/history.sql has it in full. The release before reads it, and writes
-- to it by a trigger. Whoever could read or write the table may do so with what came of it.
create view mainspring.history as select * from mainspring.history_run;
do $$
declare
  given record;
begin
  for given in
    select a.grantee, a.privilege_type, a.is_grantable
    from pg_class c, aclexplode(c.relacl) a
    where c.oid = 'mainspring.history_run'::regclass and a.grantee <> c.relowner
      and a.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  loop
    execute format('grant %s on mainspring.history, mainspring.history_bundle, mainspring.history_bundle_other to %s%s',
      given.privilege_type, case when given.grantee = 0 then 'public' else given.grantee::regrole::text end,
      case when given.is_grantable then ' with grant option' else '' end);
  end loop;
end $$;

-- Workers of the release before cannot make days of what is a view now, and do not start where one of the next seven is
-- missing: where they work, there are days for two weeks more. What cannot be made is in history_other already.
do $$
declare
  missing date;
begin
  if exists (
    select from pg_inherits
    where inhparent = 'mainspring.history_run'::regclass and inhrelid <> 'mainspring.history_other'::regclass)
  then
    for missing in
      select d.day::date
      from generate_series((mainspring.now() at time zone 'UTC')::date - 1, (mainspring.now() at time zone 'UTC')::date + 21, '1 day') as d(day)
      where to_regclass(to_char(d.day, '"mainspring.history_"YYYY_MM_DD')) is null
    loop
      begin
        execute format('create table mainspring.%I partition of mainspring.history_run for values from (%L) to (%L)',
          to_char(missing, '"history_"YYYY_MM_DD'), missing, missing + 1);
      exception when check_violation then
        null;
      end;
    end loop;
  end if;
end $$;
