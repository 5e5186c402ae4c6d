-- What each worker has of a queue's limits.
select size, rate, wants, worker_id from mainspring.part where queue = %(queue)s::text
