-- A worker goes in order.
delete from mainspring.worker where id = %(worker_id)s::uuid
