-- The processes that have a task of an actor, at most so many. From one process to the next along task_actor, so that
-- a fan-out of thousands costs one look. Locks nothing.
with recursive found as (
  (select t.process_id, 1 as n from mainspring.task t where t.actor = %(actor)s::text order by t.process_id limit 1)
  union all
  select (select t.process_id from mainspring.task t where t.actor = %(actor)s::text and t.process_id > f.process_id
    order by t.process_id limit 1), f.n + 1
  from found f
  where f.process_id is not null and f.n < %(most)s::integer
)
select process_id::text
from found
where process_id is not null
