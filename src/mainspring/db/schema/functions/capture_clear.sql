-- Before a truncate of a table, or of a partition (arguments as for capture): its entities end. Nothing of the table is read here,
-- its owner's code would run as the owner of the schema. Where the keys are wanted (consumers get events, a partition is part of a
-- kind) three triggers follow each other by their names: this one with 'ask' says what to print, print_clear prints it with the
-- rights of whoever truncates, this one ends. Without keys, a table that is no partition ends all entities of its kind.
create or replace function mainspring.capture_clear() returns trigger
  language plpgsql security definer
  set search_path = pg_catalog, pg_temp
  as $$
declare
  kind constant text := tg_argv[0];
  told constant boolean := exists (select from mainspring.consumer c where c.kind = tg_argv[0] and c.retired_at is null);
  whole constant boolean := pg_partition_root(tg_relid) is null;
  asked constant text := 'mainspring.clear_' || md5(kind);  -- the triggers of two kinds may fire in turns
  given constant text := 'mainspring.cleared_' || md5(kind);
  wanted text := '';
  printed text;
  chunk record;
begin
  if not exists (select from mainspring.captured c
    where c.kind = tg_argv[0] and c.relid = coalesce(pg_partition_root(tg_relid), tg_relid)) then
    perform mainspring.warn_of_trigger(tg_relid, tg_name, kind);
    return null;
  end if;
  if tg_nargs > 6 and tg_argv[6] = 'ask' then
    if told or not whole then
      wanted := format('select jsonb_agg(jsonb_build_array(%s, %s))::text from only %s o, lateral (select %s) b',
        mainspring.key_expression(tg_relid, tg_argv[1]::text[], 'o'),
        case when told then 'to_jsonb(b.*)' else 'null' end, tg_relid::regclass, mainspring.row_expression(tg_relid, 'o'));
    end if;
    perform set_config(asked, coalesce(wanted, ''), true), set_config(given, '', true);
    return null;
  end if;
  printed := nullif(current_setting(given, true), '');
  perform set_config(asked, '', true), set_config(given, '', true);
  if printed is not null then
    for chunk in
      select array_agg(s.key) as keys, array_agg(s.body) as bodies
      from (
        select p.row->>0 as key, nullif(p.row->1, 'null') as body,
          row_number() over (order by mainspring.shard(p.row->>0, (select shard_count from mainspring.install)), p.row->>0) as n
        from jsonb_array_elements(printed::jsonb) as p(row)
      ) s
      group by s.n / 10000 order by s.n / 10000
    loop
      perform mainspring.end_entities(kind, chunk.keys, chunk.bodies);
    end loop;
  elsif whole then
    delete from mainspring.state s where s.kind = tg_argv[0];
    perform mainspring.clear_queues(array[kind, kind || '~'], array[kind || '/']);
    if told then
      raise warning 'mainspring: table % cannot be read by %, so the consumers of kind % get no deleted events',
        tg_relid::regclass, coalesce(nullif(current_setting('role'), 'none'), session_user), quote_literal(kind);
    end if;
  else
    raise warning 'mainspring: partition % cannot be read by %; states of its entities of kind % stay',
      tg_relid::regclass, coalesce(nullif(current_setting('role'), 'none'), session_user), quote_literal(kind)
      using hint = 'delete its rows instead, or truncate as a role that may select them';
  end if;
  return null;
end
$$;

-- Between the two: print what is wanted. It runs as whoever truncates, so the text that it executes can do nothing that he cannot do
-- himself. Nothing of ours is called, he may have no right to it. What cannot be read is not printed.
create or replace function mainspring.print_clear() returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  set datestyle = 'ISO, YMD'
  set intervalstyle = 'postgres'
  set bytea_output = 'hex'
  set extra_float_digits = 1
  set jit = off
  as $$
declare
  wanted constant text := nullif(current_setting('mainspring.clear_' || md5(tg_argv[0]), true), '');
  printed text;
begin
  if wanted is null or not has_table_privilege(tg_relid, 'select') or row_security_active(tg_relid) then
    return null;
  end if;
  execute wanted into printed;
  perform set_config('mainspring.cleared_' || md5(tg_argv[0]), coalesce(printed, '[]'), true);
  return null;
exception when others then
  return null;
end
$$;
