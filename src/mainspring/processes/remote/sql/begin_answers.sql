-- The engine's time, and whether all workers find what is in bundles of history. What holds up answers in this transaction is waited for
-- no longer than by a worker: the others would wait with it.
select extract(epoch from mainspring.now())::double precision as now,
  (select coalesce(bool_and(w.bundles), true) from mainspring.worker w) as bundles,
  set_config('lock_timeout', '200ms', true) as lock_timeout
