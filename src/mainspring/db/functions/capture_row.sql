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
  there boolean;
begin
  if mainspring.is_own_save(kind) then
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
  if tg_op <> 'INSERT' then
    execute format('select %s from (select ($1).*) r', expression) into old_key using old;
    old_row := mainspring.row_json(old);
  end if;
  if tg_op <> 'DELETE' then
    execute format('select %s from (select ($1).*) r', expression) into new_key using new;
    new_row := mainspring.row_json(new);
  elsif pg_partition_root(tg_relid) is not null then
    -- A row that moves to another partition is deleted here and inserted there: its state must not end. Where one cannot
    -- look, nothing ends: the visit that is offered instead finds no entity and is over.
    there := mainspring.is_there(pg_partition_root(tg_relid), keys, old);
    if there then
      return null;
    end if;
    new_key := case when there is null then old_key end;
  end if;
  perform mainspring.capture_one(
    kind, old_key, new_key, old_row, new_row, tg_argv[2], tg_argv[3]::text[], tg_argv[5] = 'notify');
  return null;
end
$$;

-- Whether a table has a row with the key of this one; null: it cannot be read as a whole.
create or replace function mainspring.is_there(relation regclass, keys text[], entity record) returns boolean
  language plpgsql stable
  as $$
declare
  found_it boolean;
begin
  if not has_table_privilege(relation, 'select') or row_security_active(relation) then
    return null;
  end if;
  execute format('select exists (select from %s t where %s)', relation,
    (select string_agg(format('t.%1$I = ($1).%1$I', k), ' and ') from unnest(keys) k)) into found_it using entity;
  return found_it;
exception when others then
  return null;
end
$$;
