-- Drop a day of kept events; locks the row of install (functions/history_days.sql).
select mainspring.drop_day(%(name)s::text) as done
