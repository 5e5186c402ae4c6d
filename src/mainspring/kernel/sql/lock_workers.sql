-- For a recut, after the leases are locked: who lives. Keeps them from being buried until the recut has ended, so a burial
-- frees what the recut wrote. Whoever is being deleted just now is left out: it counts as dead.
select id, code
from mainspring.worker
where pool = %(pool)s::text
for key share skip locked
