-- Capture row by row (arguments as for capture): for tables written partition by partition and, enabled always, for targets of
-- logical replication, where statement triggers do not fire. Slower for many rows. After insert, update or delete, for each row.
create or replace function mainspring.capture_row() returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  set datestyle = 'ISO, YMD'
  set intervalstyle = 'postgres'
  set bytea_output = 'hex'
  set extra_float_digits = 1
  as $$
declare
  kind constant text := tg_argv[0];
  keys constant text[] := tg_argv[1];
  expression text;
  old_key text;
  new_key text;
  old_row jsonb;
  new_row jsonb;
begin
  if mainspring.is_own_save(kind) then
    return null;
  end if;
  if not exists (select from mainspring.captured c
    where c.kind = tg_argv[0] and c.relid = coalesce(pg_partition_root(tg_relid), tg_relid)) then
    perform mainspring.warn_of_trigger(tg_relid, tg_name, kind);
    return null;
  end if;
  if tg_op = 'UPDATE' and old *= new then
    return null;
  end if;
  expression := mainspring.key_expression(tg_relid, keys, 'r');
  if expression is null then
    raise warning 'mainspring: table % has no column % any more; this change of kind % is not seen',
      tg_relid::regclass, keys, quote_literal(kind) using hint = 'declare the new key and run mainspring migrate module:app';
    return null;
  end if;
  expression := case when exists (select from pg_attribute a
      where a.attrelid = tg_relid and a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384)
    then format('select %s, mainspring.row_json(b.*) from (select ($1).*) r, lateral (select %s) b',
      expression, mainspring.row_expression(tg_relid, 'r'))
    else format('select %s, mainspring.row_json(r.*) from (select ($1).*) r', expression) end;
  if tg_op <> 'INSERT' then
    execute expression into old_key, old_row using old;
  end if;
  if tg_op <> 'DELETE' then
    execute expression into new_key, new_row using new;
  end if;
  -- A row that moves to another partition is deleted here and inserted there: its state must not end. The table itself is not
  -- looked into, its owner's code would run: what has not come again when the transaction ends is deleted.
  if tg_op = 'DELETE' and old_key is not null and pg_partition_root(tg_relid) is not null then
    insert into mainspring.leaving (kind, key, xact, body) values (tg_argv[0], old_key, pg_current_xact_id(), old_row);
    return null;
  elsif tg_op = 'INSERT' and pg_partition_root(tg_relid) is not null then
    delete from mainspring.leaving l where l.kind = tg_argv[0] and l.key = new_key and l.xact = pg_current_xact_id();
  end if;
  perform mainspring.capture_one(
    kind, old_key, new_key, old_row, new_row, tg_argv[2], tg_argv[3]::text[], tg_argv[5] = 'notify');
  return null;
end
$$;

-- At the end of the transaction: what left a partition and came into none is deleted.
create or replace function mainspring.capture_left() returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if tg_relid <> 'mainspring.leaving'::regclass then
    perform mainspring.warn_of_trigger(tg_relid, tg_name, 'leaving');
    return null;
  end if;
  delete from mainspring.leaving l where l.id = new.id;
  if found then
    perform mainspring.end_entities(new.kind, array[new.key], array[new.body]);
  end if;
  return null;
end
$$;

do $$
begin
  if not exists (select from pg_trigger where tgrelid = 'mainspring.leaving'::regclass and tgname = 'leaving_end') then
    create constraint trigger leaving_end after insert on mainspring.leaving deferrable initially deferred
      for each row execute function mainspring.capture_left();
    alter table mainspring.leaving enable always trigger leaving_end;  -- where logical replication applies too
  end if;
end
$$;
