-- The names of all reactive tasks: to say which is nearest to one that is not there.
select task from mainspring.reactive_task order by task limit 10000
