-- Before a truncate of a table, or of a partition (arguments as for capture): its entities end. Set by set, from the table itself,
-- which is locked against everybody; if it cannot be read as a whole, a table that is no partition ends all entities of its kind.
create or replace function mainspring.capture_clear() returns trigger
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
  expression constant text := mainspring.key_expression(tg_relid, tg_argv[1]::text[], 'o');
  told constant boolean := exists (select from mainspring.consumer c where c.kind = tg_argv[0] and c.retired_at is null);
  readable constant boolean := expression is not null and has_table_privilege(tg_relid, 'select')
    and not row_security_active(tg_relid);
  whole constant boolean := pg_partition_root(tg_relid) is null;
  chunk record;
begin
  if readable and (told or not whole) then
    for chunk in execute format(
      'select array_agg(key) as keys, array_agg(body) as bodies from ('
      'select key, body, row_number() over (order by mainspring.shard(key, (select shard_count from mainspring.install)), key) as n'
      ' from (select %s as key, case when $1 then mainspring.row_json(o.*) end as body from only %s o) s) s'
      ' group by n / 10000 order by n / 10000', expression, tg_relid::regclass) using told
    loop
      perform mainspring.end_entities(kind, chunk.keys, chunk.bodies);
    end loop;
  elsif whole then
    delete from mainspring.state s where s.kind = tg_argv[0];
    delete from mainspring.visit v
      where v.queue in (tg_argv[0], tg_argv[0] || '~') or starts_with(v.queue, tg_argv[0] || '/');
    if told then
      raise warning 'mainspring: table % cannot be read by %, so the consumers of kind % get no deleted events',
        tg_relid::regclass, current_user, quote_literal(kind);
    end if;
  else
    raise warning 'mainspring: partition % cannot be read by %; states of its entities of kind % stay',
      tg_relid::regclass, current_user, quote_literal(kind) using hint = 'grant select to the owner of schema mainspring';
  end if;
  return null;
end
$$;
