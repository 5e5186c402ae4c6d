-- Workers of different code in one pool (docs/design/mixed-pools.md). Nothing is written here while all have the same code.
-- A worker's code: a digest of its queues with their turn classes. Null: of the release before, which knows no bands.
alter table mainspring.worker add column code text, add column turns text[];

-- A band: queues with leases of their own, whose rows have this name as their pool. Named by its content and never changed.
create table mainspring.band (
  name text collate "C" primary key,                  -- the pool, chr(31), a digest of the queues
  pool text collate "C" not null,
  queues text[] not null,
  used_at timestamptz not null default mainspring.now()
);

do $$
declare
  given record;
begin
  for given in
    select a.grantee, a.privilege_type, a.is_grantable
    from pg_class c, aclexplode(c.relacl) a
    where c.oid = 'mainspring.lease'::regclass and a.grantee <> c.relowner
      and a.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  loop
    execute format('grant %s on mainspring.band to %s%s', given.privilege_type,
      case when given.grantee = 0 then 'public' else given.grantee::regrole::text end,
      case when given.is_grantable then ' with grant option' else '' end);
  end loop;
end $$;

-- When the last worker that knows bands is gone, dead or alive, the pool is whole again: those of the release before that
-- are left could not open it. While another one stays it keeps that one's row for a moment, and does no more. Else it locks the
-- closed rows before it looks: of two that go at once one sees that it is the last.
create function mainspring.open_pool() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform from mainspring.worker where pool = old.pool and code is not null limit 1 for key share skip locked;
  if found then
    return null;
  end if;
  perform from mainspring.lease
  where pool = old.pool and worker_id = '00000000-0000-0000-0000-000000000000'
  order by shard
  for update;
  if not found or exists (select from mainspring.worker where pool = old.pool and code is not null) then
    return null;
  end if;
  update mainspring.lease l
  set worker_id = null, epoch = mainspring.token(), offered_to = null,
    suspect_of = (
      select coalesce(b.worker_id, b.suspect_of)
      from mainspring.lease b
      where b.pool > old.pool and b.pool < old.pool || ' ' and b.shard = l.shard
      order by b.worker_id is null, b.suspect_of is null
      limit 1)
  where pool = old.pool and worker_id = '00000000-0000-0000-0000-000000000000';
  delete from mainspring.lease where pool > old.pool and pool < old.pool || ' ';
  return null;
end $$;
revoke all on function mainspring.open_pool() from public;

create trigger open_pool after delete on mainspring.worker
for each row when (old.code is not null) execute function mainspring.open_pool();
