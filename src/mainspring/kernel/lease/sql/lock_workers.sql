-- For a recut, after the leases are locked: who there is, and whether its row could be locked. That keeps it from being declared dead
-- until the recut has ended, so whoever does that frees what the recut wrote. A row that somebody has is being deleted just now:
-- its worker is dead, or lives on if that is rolled back.
with kept as materialized (
  select id
  from mainspring.worker
  where pool = %(pool)s::text
  for key share skip locked
)
select w.id, w.code, k.id is not null as is_kept
from mainspring.worker w
left join kept k on k.id = w.id
where w.pool = %(pool)s::text
