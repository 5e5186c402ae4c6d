-- Who may call what; applied last by every migrate. Nothing is open to everybody: a function is granted by "mainspring rights",
-- or here, by what a role has on our tables. So a role that an earlier release let in goes on, and one of a worker may call what
-- a new release brings. What runs with the caller's own rights gives nobody a right that he has not.
do $$
declare
  schema constant oid := 'mainspring'::regnamespace;
  item record;
  -- Until migration 18 whoever had the schema could call these two, unless that was revoked. A function is open when it is new,
  -- too, so it counts only where this very transaction brings that migration to a schema that was there before.
  was_open constant text[] := array(
    select p.proname from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.oid in ('mainspring.changed(text, text[], text[])'::regprocedure,
        'mainspring.offer(text, text, text, timestamptz)'::regprocedure) and a.grantee = 0
      and exists (select from mainspring.migration m where m.number = 18 and m.applied_at = pg_catalog.now())
      and exists (select from mainspring.migration m where m.applied_at < pg_catalog.now()));
begin
  for item in
    select p.oid::regprocedure as name, a.grantor::regrole as giver, a.grantor = p.proowner as is_owners
    from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.pronamespace = schema and pg_has_role(p.proowner, 'usage') and a.grantee = 0
  loop
    -- What somebody else has opened by a right to grant goes with that right.
    if item.is_owners then
      execute format('revoke execute on function %s from public', item.name);
    else
      execute format('revoke grant option for execute on function %s from %s cascade', item.name, item.giver);
    end if;
  end loop;
  for item in
    with has as (
      select a.grantee as role, c.relname as name, a.privilege_type as privilege
      from pg_class c, aclexplode(c.relacl) a
      where c.relnamespace = schema and c.relkind in ('r', 'p', 'v') and a.grantee not in (0, c.relowner)
      union
      select x.grantee, c.relname, x.privilege_type
      from pg_class c join pg_attribute a on a.attrelid = c.oid, aclexplode(a.attacl) x
      where c.relnamespace = schema and c.relkind in ('r', 'p', 'v') and x.grantee not in (0, c.relowner)
      union
      select a.grantee, 'schema', 'USAGE' from pg_namespace n, aclexplode(n.nspacl) a
      where was_open <> '{}' and n.oid = schema and a.grantee not in (0, n.nspowner)
    )
    select p.oid::regprocedure as function, h.role::regrole as role
    from (
      select h.role,
        bool_or(h.name not in ('install', 'migration', 'schema')) as on_tables,
        bool_or(h.name = 'visit' and h.privilege = 'INSERT') as enqueues,
        bool_or(h.name = 'history_run' and h.privilege = 'SELECT') as asks,
        bool_or(h.name = 'param' and h.privilege = 'UPDATE') as advances,
        bool_or(h.name = 'param_rewind' and h.privilege = 'INSERT') as rewinds,
        bool_or(h.name = 'lease' and h.privilege = 'UPDATE') as works,
        bool_or(h.name = 'schema') as had_schema
      from has h group by h.role
    ) h
    join pg_proc p on p.pronamespace = schema and p.prorettype <> 'trigger'::regtype and pg_has_role(p.proowner, 'usage')
    where not has_function_privilege(h.role, p.oid, 'execute') and (
      h.works
      or h.on_tables and not p.prosecdef
      or h.enqueues and p.proname in ('enqueue', 'enqueue_many', 'enqueue_calls', 'enqueue_each', 'enqueue_unique')
      or h.asks and p.proname = 'result_of'
      or h.advances and p.proname in ('advance', 'advance_params')
      or h.rewinds and p.proname in ('rewind', 'rewind_param')
      or h.had_schema and (p.proname in ('canonical_keys', 'key_of', 'key_expression', 'own_column', 'key_part', 'prints_equals_alike')
        or p.proname in ('changed', 'offer_changed') and 'changed' = any(was_open)
        or p.proname in ('offer', 'offer_entity') and 'offer' = any(was_open)))
  loop
    execute format('grant execute on function %s to %s', item.function, item.role);
  end loop;
  -- Whoever may enqueue by the functions of the release before may by those that say what happened.
  for item in
    select distinct p.oid::regprocedure as function, a.grantee::regrole as role
    from pg_proc o cross join lateral aclexplode(o.proacl) a, pg_proc p
    where o.pronamespace = schema and o.proname = 'enqueue_many' and a.privilege_type = 'EXECUTE' and a.grantee not in (0, o.proowner)
      and p.pronamespace = schema and p.proname in ('enqueue_each', 'enqueue_unique')
      and not has_function_privilege(a.grantee, p.oid, 'execute')
  loop
    execute format('grant execute on function %s to %s', item.function, item.role);
  end loop;
  -- Whoever sets limits of queues may set those that a new release brings.
  for item in
    select distinct x.grantee::regrole as role from pg_attribute a, aclexplode(a.attacl) x
    where a.attrelid = 'mainspring.queue'::regclass and a.attname = 'concurrency' and x.privilege_type = 'UPDATE'
      and x.grantee <> 0 and not has_column_privilege(x.grantee, a.attrelid, 'waiting_max', 'update')
  loop
    execute format('grant update (waiting_max, is_full) on mainspring.queue to %s', item.role);
  end loop;
  -- Whoever pauses queues may say why and until when.
  for item in
    select distinct x.grantee::regrole as role from pg_attribute a, aclexplode(a.attacl) x
    where a.attrelid = 'mainspring.queue'::regclass and a.attname = 'paused_at' and x.privilege_type = 'UPDATE'
      and x.grantee <> 0 and not has_column_privilege(x.grantee, a.attrelid, 'paused_until', 'update')
  loop
    execute format('grant update (paused_until, pause_reason) on mainspring.queue to %s', item.role);
  end loop;
  -- And whoever pauses may open and close breakers.
  for item in
    select distinct x.grantee::regrole as role from pg_attribute a, aclexplode(a.attacl) x
    where a.attrelid = 'mainspring.queue'::regclass and a.attname = 'paused_at' and x.privilege_type = 'UPDATE'
      and x.grantee <> 0 and not (has_table_privilege(x.grantee, 'mainspring.breaker'::regclass, 'insert')
        and has_column_privilege(x.grantee, a.attrelid, 'burst', 'update'))
  loop
    execute format('grant update (burst, group_burst, breaker_failures, breaker_pause) on mainspring.queue to %s', item.role);
    execute format('grant select, insert, update, delete on mainspring.breaker to %s', item.role);
  end loop;
  -- Whoever orders is noted in the audit, and may not change what it says.
  for item in
    select distinct x.grantee::regrole as role from pg_attribute a, aclexplode(a.attacl) x
    where a.attrelid = 'mainspring.queue'::regclass and a.attname = 'paused_at' and x.privilege_type = 'UPDATE'
      and x.grantee <> 0 and not has_table_privilege(x.grantee, 'mainspring.audit'::regclass, 'insert')
  loop
    execute format('grant insert, select on mainspring.audit to %s', item.role);
  end loop;
  -- Whoever looks which workers sleep (wake.sql) looks who else does.
  for item in
    select distinct x.grantee::regrole as role
    from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attname = 'asleep',
      lateral (select * from aclexplode(c.relacl) union all select * from aclexplode(a.attacl)) x
    where c.oid = 'mainspring.worker'::regclass and x.privilege_type = 'SELECT' and x.grantee not in (0, c.relowner)
      and not has_column_privilege(x.grantee, 'mainspring.sleeper'::regclass, 'until', 'select')
  loop
    execute format('grant select (queue, until) on mainspring.sleeper to %s', item.role);
  end loop;
  -- Whoever reads history reads how far calls are.
  for item in
    select distinct a.grantee::regrole as role from pg_class c, aclexplode(c.relacl) a
    where c.oid = 'mainspring.history_run'::regclass and a.privilege_type = 'SELECT' and a.grantee not in (0, c.relowner)
      and not has_table_privilege(a.grantee, 'mainspring.progress'::regclass, 'select')
  loop
    execute format('grant select on mainspring.progress to %s', item.role);
  end loop;
  -- And what of it is not to be shown; and, for the doctor, which keys of ciphers workers have.
  for item in
    select distinct a.grantee::regrole as role from pg_class c, aclexplode(c.relacl) a
    where c.oid = 'mainspring.history_run'::regclass and a.privilege_type = 'SELECT' and a.grantee not in (0, c.relowner)
      and not (has_table_privilege(a.grantee, 'mainspring.redaction'::regclass, 'select')
        and has_table_privilege(a.grantee, 'mainspring.worker_cipher'::regclass, 'select'))
  loop
    execute format('grant select on mainspring.redaction, mainspring.worker_cipher to %s', item.role);
  end loop;
  -- A worker's role has the tables that a new release brings, but for those that only the owner writes.
  for item in
    select c.oid::regclass as name, w.role::regrole as role, c.relkind,
      c.relname in ('migration', 'install', 'entry', 'captured') as is_owners
    from (select distinct a.grantee as role from pg_class c, aclexplode(c.relacl) a
      where c.oid = 'mainspring.lease'::regclass and a.privilege_type = 'UPDATE' and a.grantee not in (0, c.relowner)) w
    join pg_class c on c.relnamespace = schema and c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
    where case c.relkind when 'S' then not has_sequence_privilege(w.role, c.oid, 'usage')
      else not has_table_privilege(w.role, c.oid, 'select') end
  loop
    execute format('grant %s on %s to %s', case when item.is_owners then 'select'
      when item.relkind = 'S' then 'usage, select, update' else 'select, insert, update, delete' end,
      case when item.relkind = 'S' then 'sequence ' else '' end || item.name, item.role);
  end loop;
end
$$;
