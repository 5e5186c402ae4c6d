"""The kernel: one durable table of visits.

A *visit* is a wish: queue Q should look at key K at time T. The kernel offers, reads, runs and
settles visits so that none is lost and none is settled twice. It knows nothing of what a visit
means; the layers above say that.

Leases decide who reads; tokens decide what counts. `docs/design/kernel.md` has the protocol, the
invariants and the traps; `sql/` is the whole protocol with the database, one statement a file.

    visit.py outcome.py retry.py config.py      what things are, and pure rules
    cursor.py buffer.py level.py queue_state.py limits.py lease.py settling.py
                                                each choice a worker makes, without I/O
    reader.py runner.py settler.py wake.py      the loops of a worker
    heart.py                                    its thread, which beats; with shards.py (leases),
                                                holds.py (holds, recovery), parts.py (limits)
    upkeep.py operation.py recurring.py         history's days, bulk jobs, cron (cron.py)
    worker.py                                   puts them together
    parked.py history.py live.py queues.py      what an operator asks and orders, by ask.py; with
                                                why.py status.py doctor.py bulk.py rights.py
"""
