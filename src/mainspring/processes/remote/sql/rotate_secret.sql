-- A new secret; the one before stays good, older ones go. The table's lock keeps two of these apart.
with new as (
  insert into mainspring.secret (number) select coalesce(max(number), 0) + 1 from mainspring.secret returning number
),
old as (
  delete from mainspring.secret s using new n where s.number < n.number - 1
)
select number from new
