-- A flood stays outside: how many visits of a queue may wait, set by an operator, and whether so many do. A worker counts now and
-- then and sets the flag; who enqueues by the functions reads it with the queue's row, so nobody writes a counter.
alter table mainspring.queue
  add column waiting_max integer constraint queue_waiting_max_check check (waiting_max >= 1),
  add column is_full boolean not null default false;
create index queue_bounded on mainspring.queue (name) where waiting_max is not null;

-- At the end of the transaction, when those who bury a worker have said whose runs are in doubt: at once it would name the worker
-- as the suspect of its shards though it was only cut off.
drop trigger open_pool on mainspring.worker;
create constraint trigger open_pool after delete on mainspring.worker
deferrable initially deferred
for each row when (old.code is not null) execute function mainspring.open_pool();
