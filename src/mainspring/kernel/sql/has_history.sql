-- Whether history knows a run. Rides the primary key.
select exists (
  select from mainspring.history_run
  where key = %(key)s::text and day = (to_timestamp(%(started)s::double precision) at time zone 'UTC')::date and run = %(run)s::bigint
) as known
