-- The last parked visit of each of these groups, whose text and payload are read. Rides visit_alike; of a group whose type is not in its
-- rows (a worker of the release before parked them, or their workers died) visit_parked.
select (i.n - 1)::integer as n, i.queue, i.at as parked_at, v.error, v.payload
from unnest(%(queues)s::text[], %(error_types)s::text[], %(fingerprints)s::text[], %(times)s::timestamptz[]) with ordinality
  as i(queue, error_type, fingerprint, at, n)
left join lateral (
  (
    select e.error, e.payload::text as payload
    from mainspring.visit e
    where e.error_type = i.error_type and e.queue = i.queue and e.fingerprint = i.fingerprint and e.parked_at = i.at
    limit 1
  )
  union all
  (
    select e.error, e.payload::text as payload
    from mainspring.visit e
    where i.fingerprint is null and e.queue = i.queue and e.parked_at = i.at and e.error_type is null
      and coalesce(substring(e.error from '^([^:[:space:]]+):'), case when e.crashes > 0 then 'WorkerDied' else 'Unknown' end) = i.error_type
    limit 1
  )
  limit 1
) v on true
