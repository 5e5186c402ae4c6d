-- Which database this connection leads to, and whether Mainspring is in it. Needs no right, locks nothing. A server is known
-- by the moment of its start: a copy of its files has another.
select d.oid::bigint, extract(epoch from pg_catalog.pg_postmaster_start_time())::text, d.datname::text,
  pg_catalog.to_regnamespace('mainspring') is not null
from pg_catalog.pg_database d
where d.datname = pg_catalog.current_database()
