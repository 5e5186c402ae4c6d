-- Remove recurring visits: those named, or those of these queues that are not among the kept names.
-- Their own visits go by themselves: a run that finds no schedule ends. Answers the names.
delete from mainspring.recurring
where name = any(%(names)s::text[])
  or (queue = any(%(queues)s::text[]) and name = queue and name <> all(%(kept)s::text[]))
returning name
