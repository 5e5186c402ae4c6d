-- A worker appears: under an id that was never used before. Its code tells what it can run, and with what turn classes. Its launch stays
-- the same under every id that it has.
insert into mainspring.worker (id, pool, queues, slots, free, host, process, bundles, code, turns, launch)
values (%(worker_id)s::uuid, %(pool)s::text, %(queues)s::text[], %(slots)s::integer, %(slots)s::integer, %(host)s::text,
  %(process)s::integer, true, %(code)s::text, %(turns)s::text[], %(launch)s::uuid)
