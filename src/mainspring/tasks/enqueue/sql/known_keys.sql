-- How many workers run, and the keys that any of them can open.
select (select count(*)::integer from mainspring.worker) as workers,
  array(select distinct unnest(c.keys) from mainspring.worker_cipher c) as keys
