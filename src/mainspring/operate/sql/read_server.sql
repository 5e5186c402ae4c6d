-- What of the server's settings and of its load matters to us. `others` are connections that are not workers' own: those of
-- applications, of tasks, and of strangers.
select current_setting('server_version') as version, current_setting('server_version_num')::integer as version_number,
  current_setting('synchronous_commit') as synchronous_commit, current_setting('fsync') as fsync,
  current_setting('full_page_writes') as full_page_writes, current_setting('autovacuum') as autovacuum,
  (select setting::double precision from pg_settings where name = 'deadlock_timeout') as deadlock_timeout_ms,
  current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer as connections,
  (select count(*) from pg_stat_activity where backend_type = 'client backend') as used,
  (select count(*) from pg_stat_activity
    where backend_type = 'client backend' and application_name !~ '^mainspring:(?!client:|task:)') as others,
  (select count(*) from mainspring.worker) as workers,
  pg_is_in_recovery() as standby,
  extract(epoch from pg_catalog.clock_timestamp())::double precision as clock
