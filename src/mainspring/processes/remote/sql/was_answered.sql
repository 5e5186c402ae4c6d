-- Which of these runs an actor elsewhere settled: what recovery or a deadline ended has a row in history too, but the
-- answer was thrown away. Ids of actors elsewhere are of version 5 (pulling.id_of), those of workers are not. A result
-- was taken only where the run is done; a failure may have been retried or parked. Locks nothing. Rides the primary key. What is in a bundle is done.
select i.n::integer as n
from unnest(%(keys)s::text[], %(runs)s::bigint[], %(started)s::double precision[], %(are_failures)s::boolean[])
  with ordinality as i(key, run, started, is_failure, n)
where exists (
  select from mainspring.history_run h
  where h.key = i.key and h.day = (to_timestamp(i.started) at time zone 'UTC')::date and h.run = i.run
    and substr(h.worker_id::text, 15, 1) = '5'
    and (h.outcome = 'done' or i.is_failure)
)
or exists (
  select from mainspring.bundles_with(i.key) p
  where i.run = any(p.runs) and substr(p.worker_id::text, 15, 1) = '5'
)
