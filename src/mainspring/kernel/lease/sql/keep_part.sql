-- Set my part of a queue's limits. Runs in a transaction that has locked the queue row, so the sum can be trusted.
insert into mainspring.part (queue, worker_id, size, rate, wants)
values (%(queue)s::text, %(worker_id)s::uuid, %(size)s::integer, %(rate)s::double precision, %(wants)s::boolean)
on conflict (queue, worker_id) do update
set size = excluded.size, rate = excluded.rate, wants = excluded.wants
