-- Make a day of kept events, which belongs to the schema's owner; locks the row of install (functions/history_days.sql).
select mainspring.make_day('event_kept', %(day)s::text::date) as done
