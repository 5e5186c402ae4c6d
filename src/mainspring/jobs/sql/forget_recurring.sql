-- Remove the schedules that code declared for these targets and does not declare any more; those made at run time stay.
-- Their own visits go by themselves: a run that finds no schedule ends. Answers the names.
delete from mainspring.recurring
where (declared is not null or target is null) and coalesce(target, queue) = any(%(targets)s::text[])
  and name <> all(%(kept)s::text[])
returning name
