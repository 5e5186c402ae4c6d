-- Drop a day of history that has ended; locks the row of install (functions/history_days.sql).
select mainspring.drop_day(%(name)s::text) as done
