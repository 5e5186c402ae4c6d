-- Count what waits in the queues of which an operator has bounded it, and set or clear the flag that keeps new calls out. Counts
-- no more than the bound. It clears at four fifths of it, so that it does not change with every run. Whoever changed the bound
-- meanwhile is not overwritten. Locks the rows that change. Returns all bounded queues. Rides queue_bounded and visit_due.
with counted as materialized (
  select q.name, q.waiting_max, q.is_full as was_full,
    c.count >= case when q.is_full then ceil(q.waiting_max * 0.8) else q.waiting_max end as is_full
  from mainspring.queue q
  cross join lateral (
    select count(*)
    from (
      select
      from mainspring.visit v
      where v.queue = q.name and v.pass is null and v.parked_at is null
      limit q.waiting_max
    ) v
  ) c
  where q.waiting_max is not null
),
changed as (
  update mainspring.queue q
  set is_full = c.is_full
  from counted c
  where q.name = c.name and q.waiting_max = c.waiting_max and q.is_full = c.was_full and c.is_full <> c.was_full
  returning q.name
)
select c.name, c.waiting_max, c.is_full, h.name is not null as has_changed
from counted c
left join changed h on h.name = c.name
