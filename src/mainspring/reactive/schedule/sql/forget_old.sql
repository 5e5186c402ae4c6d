-- Drop what is older than it is kept: changes of params, evaluations, rewinds that every consumer has passed. A page at a time.
-- Answers how many went.
with log as (
  delete from mainspring.param_log where ctid in (
    select ctid from mainspring.param_log where at < mainspring.clock() - make_interval(days => %(days)s::integer) limit 5000)
  returning 1
),
past as (
  delete from mainspring.evaluation where ctid in (
    select ctid from mainspring.evaluation where at < mainspring.clock() - make_interval(days => %(days)s::integer) limit 5000)
  returning 1
),
passed as (
  delete from mainspring.param_rewind r
  where r.at < mainspring.clock() - make_interval(days => %(days)s::integer)
    and not exists (
      select from mainspring.uses u join mainspring.reactive_task t on t.task = u.task
      where u.param = r.param and (t.seen -> r.param ->> 1)::integer < r.number)
  returning 1
)
select (select count(*) from log) + (select count(*) from past) + (select count(*) from passed) as gone
