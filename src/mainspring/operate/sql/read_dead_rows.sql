-- Live and dead rows of the hot tables, and when each was last vacuumed.
select relname as name, n_live_tup as live, n_dead_tup as dead, greatest(last_vacuum, last_autovacuum) as vacuumed_at
from pg_stat_user_tables
where schemaname = 'mainspring' and relname in ('visit', 'worker', 'lease', 'reach')
order by relname
