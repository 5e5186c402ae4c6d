-- What holds up answers in this transaction is waited for no longer than by a worker: the others would wait with it.
select set_config('lock_timeout', '200ms', true)
