-- A worker appears: under an id that was never used before.
insert into mainspring.worker (id, pool, queues, slots, free, host, process, bundles)
values (%(worker_id)s::uuid, %(pool)s::text, %(queues)s::text[], %(slots)s::integer, %(slots)s::integer, %(host)s::text,
  %(process)s::integer, true)
