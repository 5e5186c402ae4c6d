-- Drop the graphs of some processes that ended so many days ago. Of one whose id a user chose the row stays: its id is
-- taken for ever. One whose end its parent has not been told is left. Answers how many; the oldest first. Locks their
-- rows and skips those that somebody has. Rides process_ended and the processes' keys.
with old as materialized (
  select p.id, p.key = p.id::text or starts_with(p.key, p.parent_task::text) as is_nameless
  from mainspring.process p
  where p.ended_at < mainspring.now() - make_interval(days => %(days)s::integer) and not p.thinned and p.state <> 'open'
    and not exists (select from mainspring.external x where x.task = p.parent_task)
  order by p.ended_at
  limit %(limit)s::integer
  for update of p skip locked
),
edges as (delete from mainspring.edge e using old o where e.process_id = o.id),
tasks as (delete from mainspring.task t using old o where t.process_id = o.id),
scopes as (delete from mainspring.scope s using old o where s.process_id = o.id),
signals as (delete from mainspring.signal s using old o where s.process_id = o.id),
gone as (delete from mainspring.process p using old o where p.id = o.id and o.is_nameless),
kept as (update mainspring.process p set thinned = true from old o where p.id = o.id and o.is_nameless is not true)
select count(*) from old
