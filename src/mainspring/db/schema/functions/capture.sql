-- Capture of changes to a user's table (S21): trigger functions of kinds. The arguments of a trigger are
--   kind, key columns, version column ('xmin': none), columns left out, 'plain' if the key's JSON text is its text, 'notify'.
-- They run as their owner, with fixed settings, so that a key prints the same in every session: they touch no table, type, cast or
-- operator of a user's, and see only tables that are registered for the kind. Nothing here may make a user's write fail: columns are looked up when the trigger fires, a key that cannot be a visit's is left out, a key column that is
-- gone is a warning. A whole row is written r.*: r alone would be a column of that name, if the table has one.
-- Lock order: the user's rows (had), states, visits. Many visits are upserted in the order of their primary key (a quarter less
-- work than by shard); writers cannot meet there, because they have the entities' rows, and the engine gives way.

-- Whether a statement's trigger fires for the engine's own save of this kind, which offers for itself. What a user's trigger
-- writes in such a save is one level deeper; another kind over the same table, or over one that a dao writes, must hear of it.
-- A setting is no proof: it counts for a role that may write leases, which is a worker's.
create or replace function mainspring.is_own_save(kind text) returns boolean
  language sql stable
  as $$
    select pg_trigger_depth() = 1 and current_setting('mainspring.engine', true) = 'on'
      and coalesce(nullif(current_setting('mainspring.saves', true), ''), kind) = kind
      and has_table_privilege(
        coalesce(nullif(current_setting('role'), 'none'), session_user)::name, 'mainspring.lease', 'update')
  $$;

-- A trigger of ours where the owner of the schema has put none: whoever made it must not write in a kind's name.
create or replace function mainspring.warn_of_trigger(relation oid, trigger text, kind text) returns boolean
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
begin
  raise warning 'mainspring: trigger % on % is not registered for kind %; this change is not seen',
    quote_ident(trigger), relation::regclass, quote_literal(kind)
    using hint = 'run mainspring migrate module:app as the owner of schema mainspring, or drop the trigger';
  return false;
end
$$;

-- The rule of all that prints a user's columns here (docs/design/rights.md): no code of a type's owner may run as the owner of the
-- schema. A built-in type has only built-in casts. A domain is taken for what it stands on: casts of domains are never used. Any
-- other type is printed by its output function, which concat calls, because its casts are its owner's code.
-- This is the expression of a column whose type is not built in.
create or replace function mainspring.own_column(alias text, name text, type oid, as_text boolean) returns text
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    with recursive base(oid, typtype, typbasetype, typname) as (
      select t.oid, t.typtype, t.typbasetype, t.typname from pg_type t where t.oid = type
      union all
      select t.oid, t.typtype, t.typbasetype, t.typname from base b join pg_type t on t.oid = b.typbasetype where b.typtype = 'd'
    )
    select case when b.oid >= 16384 then format('case when num_nulls(%1$I.%2$I) = 0 then concat(%1$I.%2$I) end', alias, name)
      else format('%I.%I', alias, name) || case when b.oid <> type then format('::pg_catalog.%I', b.typname) else '' end
        || case when as_text then '::text' else '' end end
    from base b where b.typtype <> 'd'
  $$;

-- The columns of a row, each as a value of a built-in type, under their own names.
create or replace function mainspring.row_expression(relation oid, alias text) returns text
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select string_agg(case when a.atttypid < 16384 then format('%I.%I', alias, a.attname)
        else format('%s as %I', mainspring.own_column(alias, a.attname, a.atttypid, false), a.attname) end, ', ' order by a.attnum)
    from pg_attribute a where a.attrelid = relation and a.attnum > 0 and not a.attisdropped
  $$;

-- The expression that prints a row's key: one column's text, or a JSON array of texts. Null: a key column is gone.
create or replace function mainspring.key_expression(relation oid, keys text[], alias text) returns text
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select case
      when count(a.attnum) < cardinality(keys) then null
      when cardinality(keys) = 1 then min(c.text)
      else format('jsonb_build_array(%s)::text', string_agg(c.text, ', ' order by k.n))
    end
    from unnest(keys) with ordinality as k(name, n)
    left join pg_attribute a on a.attrelid = relation and a.attname = k.name and a.attnum > 0 and not a.attisdropped
    cross join lateral (select case when a.atttypid < 16384 then format('%I.%I::text', alias, k.name)
      else mainspring.own_column(alias, k.name, a.atttypid, true) end as text) c
  $$;

-- The expression for the members '"f:column":1' of the columns that differ between rows o and n. By image: it misses nothing and
-- works for every type; where equality is image equality anyway, by the faster operator (of built-in types only: an operator or an
-- implicit cast of an own type is its owner's). In pieces: a function has 100 arguments.
create or replace function mainspring.diff_expression(relation oid, left_out text[]) returns text
  language sql stable
  set search_path = pg_catalog, pg_temp
  as $$
    select coalesce(string_agg('concat(' || piece || ')', ' || '), '''''')
    from (
      select string_agg(format(
        case when t.typname in ('int2', 'int4', 'int8', 'bool', 'uuid', 'date', 'timestamp', 'timestamptz')
            and t.typnamespace = 'pg_catalog'::regnamespace
            or t.typname in ('text', 'varchar') and t.typnamespace = 'pg_catalog'::regnamespace and l.collisdeterministic
          then 'case when o.%1$I is distinct from n.%1$I then %2$L end'
          else 'case when row(o.%1$I)::record *<> row(n.%1$I)::record then %2$L end' end,
        a.attname, ',' || to_json('f:' || a.attname) || ':1'), ', ') as piece
      from pg_attribute a
      join pg_type t on t.oid = a.atttypid
      left join pg_collation l on l.oid = a.attcollation
      where a.attrelid = relation and a.attnum > 0 and not a.attisdropped and a.attname <> all (left_out)
      group by a.attnum / 50
    ) pieces
  $$;

-- The key of a row given as JSON, for types whose JSON text is their text.
create or replace function mainspring.json_key(entity jsonb, keys text[]) returns text
  language sql immutable
  set search_path = pg_catalog, pg_temp
  as $$
    select case when entity is null then null when cardinality(keys) = 1 then entity->>keys[1] else (
      select jsonb_agg(entity->>k.name order by k.n)::text from unnest(keys) with ordinality as k(name, n)) end
  $$;

-- A row as JSON; null where JSON cannot hold it (a NUL in a json column, a text over 256 MB).
create or replace function mainspring.row_json(entity record) returns jsonb
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
begin
  return to_jsonb(entity);
exception when others then
  return null;
end
$$;

-- After insert, update or delete, for each statement. One row goes a short way with statements that are planned once; many go by
-- one statement made here and now, planned for their number (a plan kept from one row would be quadratic for many).
create or replace function mainspring.capture() returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  set datestyle = 'ISO, YMD'
  set intervalstyle = 'postgres'
  set bytea_output = 'hex'
  set extra_float_digits = 1
  set jit = off
  as $$
declare
  kind constant text := tg_argv[0];
  keys constant text[] := tg_argv[1];
  version_column constant text := tg_argv[2];
  left_out constant text[] := tg_argv[3];
  old_row jsonb;
  new_row jsonb;
  one boolean;
  own boolean;
begin
  if mainspring.is_own_save(kind) then
    return null;
  end if;
  -- Whether it is registered, and has types that are not built in: generate_capture looks for these very lines.
  select exists (select from pg_attribute a
      where a.attrelid = tg_relid and a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384) into own
  from mainspring.captured c where c.kind = tg_argv[0] and c.relid = coalesce(pg_partition_root(tg_relid), tg_relid);
  if own is null then
    one := mainspring.warn_of_trigger(tg_relid, tg_name, kind);
    return null;
  end if;
  begin
    if own then
      execute format('select %s, %s from (values (1)) one'
        || case when tg_op <> 'INSERT' then ', (select %3$s from old_rows o) o' else '' end
        || case when tg_op <> 'DELETE' then ', (select %4$s from new_rows n) n' else '' end
        || ' limit 2',  -- of many rows two will do to tell: execute would fetch every pair
        case when tg_op <> 'INSERT' then 'to_jsonb(o.*)' else 'null' end,
        case when tg_op <> 'DELETE' then 'to_jsonb(n.*)' else 'null' end,
        mainspring.row_expression(tg_relid, 'o'), mainspring.row_expression(tg_relid, 'n')) into strict old_row, new_row;
    elsif tg_op = 'UPDATE' then
      select to_jsonb(o.*), to_jsonb(n.*) into strict old_row, new_row from old_rows o, new_rows n;
    elsif tg_op = 'INSERT' then
      select to_jsonb(n.*) into strict new_row from new_rows n;
    else
      select to_jsonb(o.*) into strict old_row from old_rows o;
    end if;
    one := tg_argv[4] = 'plain' and coalesce(old_row ?& keys, true) and coalesce(new_row ?& keys, true);
  exception
    when no_data_found then return null;
    when others then one := false;  -- many rows, or one that JSON cannot hold
  end;
  if one then
    -- Assigned, not performed: an expression is evaluated without a query around it.
    one := mainspring.capture_one(
      kind,
      case when cardinality(keys) = 1 then old_row->>keys[1] else mainspring.json_key(old_row, keys) end,
      case when cardinality(keys) = 1 then new_row->>keys[1] else mainspring.json_key(new_row, keys) end,
      old_row, new_row, version_column, left_out, tg_argv[5] = 'notify');
  else
    declare
      old_key constant text := mainspring.key_expression(tg_relid, keys, 'o');
      new_key constant text := mainspring.key_expression(tg_relid, keys, 'n');
      versioned constant boolean := exists (select from pg_attribute a  -- a number: nothing to be escaped
        where a.attrelid = tg_relid and a.attname = version_column and a.attnum > 0 and a.atttypid in (20, 21, 23));
      start constant text := case when versioned
        then format('''{"out":1'' || coalesce('',"v":'' || n.%I, '''')', version_column) else '''{"out":1''' end;
      lane constant boolean := coalesce(current_setting('mainspring.lane', true), '') = 'crawl';
      source text;
      count bigint;
      chunk record;
    begin
      if new_key is null then
        raise warning 'mainspring: table % has no column % any more; this change of kind % is not seen',
          tg_relid::regclass, keys, quote_literal(kind) using hint = 'declare the new key and run mainspring migrate module:app';
        return null;
      end if;
      source := case tg_op
        when 'INSERT' then format('select %s as key, (%s || '',"new":1}'')::jsonb as payload from new_rows n', new_key, start)
        when 'UPDATE' then format(
          'select key, (start || case when is_new then '',"new":1'' else diff end || ''}'')::jsonb as payload from ('
          'select %1$s as key, %2$s as start, %3$s is null as is_new, %4$s as diff'
          ' from new_rows n left join old_rows o on %1$s = %3$s where %3$s is null or o.* *<> n.*) s where is_new or diff <> ''''',
          new_key, start, old_key, mainspring.diff_expression(tg_relid, left_out))
      end;
      if source is not null then
        execute mainspring.offering(source)
          using case when lane then kind || '~' else kind end, case when lane then 2 else 5 end;
        get diagnostics count = row_count;
        if count > 0 and tg_argv[5] = 'notify' then
          perform mainspring.wake(case when lane then kind || '~' else kind end, mainspring.now());
        end if;
      end if;
      -- A key that changed is an entity that went and another that came.
      if tg_op <> 'INSERT' then
        for chunk in execute format(
          'select array_agg(key) as keys, array_agg(body) as bodies from ('
          'select key, body, row_number() over (order by mainspring.shard(key, (select shard_count from mainspring.install)), key) as n'
          ' from (select %1$s as key, case when $1 then mainspring.row_json(b.*) end as body from old_rows o,'
          ' lateral (select %3$s) b %2$s) s) s'
          ' group by n / 10000 order by n / 10000',
          old_key, case when tg_op = 'UPDATE'
            then format('where not exists (select from new_rows n where %s = %s)', new_key, old_key) else '' end,
          mainspring.row_expression(tg_relid, 'o'))
          using exists (select from mainspring.consumer c where c.kind = tg_argv[0] and c.retired_at is null)
        loop
          perform mainspring.end_entities(kind, chunk.keys, chunk.bodies);
        end loop;
      end if;
    end;
  end if;
  return null;
end
$$;

-- One entity changed: its key and its row as JSON, before and after (null key: there was none, there is none). Differences are
-- found in the JSON texts: what they do not show no stage can see, because it is given the row as JSON. No row: all is unknown.
-- Called by triggers, with their search path. Answers whether a visit was offered.
create or replace function mainspring.capture_one(
  kind text, old_key text, new_key text, old_row jsonb, new_row jsonb, version_column text, left_out text[], notify boolean
) returns boolean
  language plpgsql volatile
  as $$
declare
  lane constant boolean := coalesce(current_setting('mainspring.lane', true), '') = 'crawl';
  payload jsonb;
  ended integer;
begin
  if old_key is not null and old_key is distinct from new_key then
    ended := mainspring.end_entities(kind, array[old_key], array[old_row]);
  end if;
  if new_key is null then
    return false;
  end if;
  if old_key is distinct from new_key or old_row is null or new_row is null then
    payload := '{"new": 1}';
  else
    select jsonb_object_agg('f:' || x.key, 1) into payload from jsonb_each_text(new_row) x
      where x.key <> all (left_out) and x.value is distinct from old_row->>x.key;
    if payload is null then
      return false;
    end if;
  end if;
  payload := payload || case when jsonb_typeof(new_row->version_column) = 'number'
    then jsonb_build_object('out', 1, 'v', new_row->version_column) else '{"out": 1}' end;
  return mainspring.offer_visit(
    case when lane then kind || '~' else kind end, new_key, payload, case when lane then 2 else 5 end, notify);
end
$$;

-- Make the capture of a kind whose table has types that are not built in: the function above, with the safe expressions of the
-- table's columns in it, so that one changed row goes by statements that are planned once. It knows the columns that it was made
-- for; when they are others it goes the general way, which is the same and slower. For the owner of the schema, who registered it.
create or replace function mainspring.generate_capture(relation regclass, kind text) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  body text := (select p.prosrc from pg_proc p where p.oid = 'mainspring.capture()'::regprocedure);
  old_rows constant text := format('(select %s from old_rows o) o', mainspring.row_expression(relation, 'o'));
  new_rows constant text := format('(select %s from new_rows n) n', mainspring.row_expression(relation, 'n'));
  changes constant text[][] := array[
    ['exists (select from pg_attribute a
      where a.attrelid = tg_relid and a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384)',
      format('%L is distinct from (select string_agg(concat(a.attname, '':'', a.atttypid), '','' order by a.attnum)
      from pg_attribute a where a.attrelid = tg_relid and a.attnum > 0 and not a.attisdropped)',
      (select string_agg(concat(a.attname, ':', a.atttypid), ',' order by a.attnum)
        from pg_attribute a where a.attrelid = relation and a.attnum > 0 and not a.attisdropped))],
    ['old_row, new_row from old_rows o, new_rows n;', format('old_row, new_row from %s, %s;', old_rows, new_rows)],
    ['into strict new_row from new_rows n;', format('into strict new_row from %s;', new_rows)],
    ['into strict old_row from old_rows o;', format('into strict old_row from %s;', old_rows)]];
begin
  for n in 1..array_length(changes, 1) loop
    if strpos(body, changes[n][1]) = 0 then
      raise exception 'capture() has no line "%" any more', changes[n][1];
    end if;
    body := replace(body, changes[n][1], changes[n][2]);
  end loop;
  execute format('create or replace function mainspring.%I() returns trigger language plpgsql security definer'
    ' set search_path = pg_catalog, pg_temp set timezone = ''UTC'' set datestyle = ''ISO, YMD'' set intervalstyle = ''postgres'''
    ' set bytea_output = ''hex'' set extra_float_digits = 1 set jit = off as %L', 'capture_of_' || kind, body);
  execute format('revoke execute on function mainspring.%I() from public', 'capture_of_' || kind);
end
$$;

-- A new release brings a new body to those that there are.
do $$
declare
  item record;
begin
  for item in
    select c.relid, c.kind from mainspring.captured c join pg_class r on r.oid = c.relid
    where exists (select from pg_proc p where p.pronamespace = 'mainspring'::regnamespace and p.proname = 'capture_of_' || c.kind)
  loop
    perform mainspring.generate_capture(item.relid, item.kind);
  end loop;
end
$$;
