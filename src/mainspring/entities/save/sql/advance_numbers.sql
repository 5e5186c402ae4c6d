-- After a failover to a standby that missed commits, sequences stand behind numbers that consumers have seen: when the
-- server's timeline is not the one noted, jump ahead by a million. Locks the install row only then. Answers the jumps.
with server as (
  select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer as timeline
),
seen as materialized (
  select i.timeline as before, s.timeline as now
  from mainspring.install i, server s
  where i.timeline is distinct from s.timeline
),
noted as (
  update mainspring.install i
  set timeline = seen.now
  from seen
  where i.timeline is not distinct from seen.before
  returning seen.before
)
select setval('mainspring.event_number', nextval('mainspring.event_number') + 1000000) as event_number,
  setval('mainspring.state_version', nextval('mainspring.state_version') + 1000000) as state_version
from noted
where before is not null
