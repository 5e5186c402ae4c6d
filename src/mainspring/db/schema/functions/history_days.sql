-- Days of history, and of kept events, are made and dropped by a worker, and belong to the owner of the schema. One upkeep at a time: the row of
-- `install` is locked, which nobody but the owner can. Answers whether it was done; false: another has the lock.
create or replace function mainspring.make_day(parent text, day date) returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  set default_tablespace = ''
  as $$
begin
  if parent not in ('history_run', 'history_bundle', 'event_kept') then
    raise exception 'days are made of history_run, history_bundle and event_kept, got %', quote_literal(parent)
      using errcode = 'invalid_parameter_value';
  end if;
  if day not between (mainspring.now() at time zone 'UTC')::date - 1 and (mainspring.now() at time zone 'UTC')::date + 31 then
    raise exception 'a day of history is made from yesterday to a month ahead, got %', day using errcode = 'invalid_parameter_value';
  end if;
  perform from mainspring.install for update skip locked;
  if not found then
    return false;
  end if;
  execute format('create table if not exists mainspring.%I partition of mainspring.%I for values from (%L) to (%L)',
    case parent when 'history_run' then 'history_' else parent || '_' end || to_char(day, 'YYYY_MM_DD'), parent, day, day + 1);
  return true;
end
$$;

-- Drop a day that has ended: a partition of history that is named by its day, never today's.
create or replace function mainspring.drop_day(name text) returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
declare
  ended regclass := (
    select c.oid from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent in ('mainspring.history_run'::regclass, 'mainspring.history_bundle'::regclass, 'mainspring.event_kept'::regclass)
      and c.relnamespace = 'mainspring'::regnamespace and c.relname = drop_day.name
      and c.relname ~ '^(history|history_bundle|event_kept)_\d{4}_\d\d_\d\d$'
      and to_date(right(c.relname, 10), 'YYYY_MM_DD') < (mainspring.now() at time zone 'UTC')::date);
begin
  if ended is null then
    raise exception 'history has no day % that has ended', quote_literal(name) using errcode = 'invalid_parameter_value';
  end if;
  perform from mainspring.install for update skip locked;
  if not found then
    return false;
  end if;
  execute format('drop table mainspring.%I', drop_day.name);
  return true;
end
$$;
