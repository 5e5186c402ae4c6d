-- Make a day of history, which belongs to the schema's owner; locks the row of install (functions/history_days.sql).
select mainspring.make_day(%(parent)s::text, %(day)s::date) as done
