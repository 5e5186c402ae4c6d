-- What each worker has of a queue's limits.
select worker_id, size, rate, wants from mainspring.part where queue = %(queue)s::text
