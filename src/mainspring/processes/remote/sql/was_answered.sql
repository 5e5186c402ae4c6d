-- Whether an actor elsewhere settled this very run: what recovery or a deadline ended has a row in history too, but the
-- answer was thrown away. Ids of actors elsewhere are of version 5 (pulling.id_of), those of workers are not. A result
-- was taken only where the run is done; a failure may have been retried or parked. Locks nothing. Rides the primary key.
select exists (
  select from mainspring.history_run
  where key = %(key)s::text and day = (to_timestamp(%(started)s::double precision) at time zone 'UTC')::date and run = %(run)s::bigint
    and substr(worker_id::text, 15, 1) = '5'
    and (outcome = 'done' or %(is_failure)s::boolean)
) as known
