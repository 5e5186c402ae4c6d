-- The names of all queues.
select name from mainspring.queue order by name
