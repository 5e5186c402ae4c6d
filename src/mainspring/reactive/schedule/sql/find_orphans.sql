-- Firings that were admitted and have no run visit: only a change made by hand, or a restore, leaves such. Compared in one
-- snapshot. Rides reactive_ready and visit_pkey.
select t.task, t.firing
from mainspring.reactive_task t
cross join mainspring.install s
where t.firing is not null and t.admitted_at is not null
  and not exists (
    select from mainspring.visit v
    where v.shard = mainspring.shard(t.task, s.shard_count) and v.key = t.task
      and starts_with(v.queue, 'mainspring.run.') and v.payload ->> 'firing' = t.firing::text)
order by t.task
