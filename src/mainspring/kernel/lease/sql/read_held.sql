-- Held visits of these shards (an array literal): they count for turns and limits, whoever runs them. Rides visit_held.
select shard, key, queue, grp, pass as run, holder,
  coalesce(held_until < mainspring.now(), false) as overdue,
  holder is not null and not exists (select from mainspring.worker w where w.id = v.holder) as orphaned,
  case when held_until < mainspring.now() then payload::text end as payload
from mainspring.visit v
where pass is not null and shard = any((select %(shards)s::text::integer[])::integer[])
