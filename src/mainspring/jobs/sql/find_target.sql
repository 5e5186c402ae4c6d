-- What a schedule is to start: the kind and pool of a queue.
select kind, pool from mainspring.queue where name = %(name)s::text
