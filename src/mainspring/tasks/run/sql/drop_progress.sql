-- Words that are older than a day, some at a time; answers how many.
with old as (
  delete from mainspring.progress
  where id = any(array(select id from mainspring.progress where changed_at < mainspring.now() - interval '1 day' limit %(most)s::integer))
  returning 1
)
select count(*)::integer as dropped from old
