-- The payload fields by which history indexes a queue's runs. No row: there is no such queue.
select searchable from mainspring.queue where name = %(queue)s::text
