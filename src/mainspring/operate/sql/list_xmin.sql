-- Who keeps vacuum from removing dead rows: old transactions, replication slots, prepared transactions; oldest first.
-- Of other roles' transactions a role without pg_read_all_stats sees nothing.
select kind, name, application, age, seconds, state
from (
  select 'transaction' as kind, a.pid::text as name, a.application_name as application,
    greatest(age(a.backend_xmin), age(a.backend_xid)) as age,
    extract(epoch from clock_timestamp() - a.xact_start)::double precision as seconds, a.state
  from pg_stat_activity a
  where (a.backend_xmin is not null or a.backend_xid is not null) and a.pid <> pg_backend_pid()
    and a.datname = current_database()
  union all
  select 'replication slot', s.slot_name::text, coalesce(s.plugin::text, ''), greatest(age(s.xmin), age(s.catalog_xmin)),
    null, case when s.active then 'active' else 'inactive' end
  from pg_replication_slots s
  where s.xmin is not null or s.catalog_xmin is not null
  union all
  select 'prepared transaction', p.gid, p.owner::text, age(p.transaction),
    extract(epoch from clock_timestamp() - p.prepared)::double precision, 'prepared'
  from pg_prepared_xacts p
  where p.database = current_database()
) holder
order by age desc nulls last
limit 20
