"""The kernel: one durable table of visits.

A *visit* is a wish: queue Q should look at key K at time T. The kernel offers, reads, runs and
settles visits so that none is lost and none is settled twice. It knows nothing of what a visit
means; the layers above say that.

Leases decide who reads; tokens decide what counts. `docs/design/kernel.md` has the protocol, the
invariants and the traps. `docs/design/layers.md` says what a layer is.

    visit.py                a visit, and a run of it
    outcome.py retry.py     what a run can come to, and what a failure leads to
    settings.py tuning.py   settings of a worker and of a queue; all constants, with their reasons
    layer.py port.py        what a layer is to a worker, and a worker to its layers
    offer.py                visits are added, or merged into those that are there
    functions/              functions of the schema that write visits, for layers' statements and for users
    statements.py           the statements of all rooms by name; makes declared queues known
    owned.py                what a worker owns and runs, and the database's time, for its loop and its heart
    worker.py               puts the rooms together

    read/     due visits come into memory        run/      slots execute them
    settle/   outcomes are written               lease/    who owns which shards, who is alive

What it uses and others too is below it: mainspring/limits (how much may run), mainspring/sharing (who
should own which shards), mainspring/ids.py. Breakers are a layer: mainspring/breakers.

This file is the door: a layer imports the names below, and nothing behind them. They are imported when
they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazily import on_demand

if TYPE_CHECKING:
    from mainspring.kernel.layer import MOST_SHUT, Chore, HeldVisit, Judge, Layer, NewlyParked
    from mainspring.kernel.offer import Offer, copy_visits, offer_new_visits, offer_visits
    from mainspring.kernel.outcome import (
        DONE,
        Again,
        Alone,
        Cancelled,
        Done,
        Expired,
        Failed,
        Outcome,
        Parked,
        Postponed,
        Retry,
        Verdict,
    )
    from mainspring.kernel.port import WorkerPort
    from mainspring.kernel.read.listener import Listener
    from mainspring.kernel.retry import judge, outcome_of_error, told_to_end
    from mainspring.kernel.run.fairness import BACKGROUND_BELOW
    from mainspring.kernel.run.hanging import MOST_HANGING
    from mainspring.kernel.run.queue import QueueState
    from mainspring.kernel.settings import (
        DEFAULT_POOL,
        REMOTE,
        Handler,
        QueueSettings,
        WorkerSettings,
        own_queue,
    )
    from mainspring.kernel.settle.batches import (
        SettleAnswer,
        in_order,
        lock_steps,
        lock_visits,
        settle_arguments,
        settle_values,
    )
    from mainspring.kernel.statements import SQL as KERNEL_SQL
    from mainspring.kernel.statements import read_now, register_queues
    from mainspring.kernel.visit import (
        DEFAULT_PRIORITY,
        EARLIEST,
        LATEST,
        PRIORITIES,
        START,
        Respite,
        Run,
        StopFlag,
        Visit,
        instant,
    )
else:
    __getattr__ = on_demand(
        __name__,
        {
            "layer": "Chore HeldVisit Judge Layer MOST_SHUT NewlyParked",
            "offer": "Offer copy_visits offer_visits offer_new_visits",
            "outcome": "Again Alone Cancelled DONE Done Expired Failed Outcome Parked Postponed Retry "
            "Verdict",
            "port": "WorkerPort",
            "read.listener": "Listener",
            "retry": "judge outcome_of_error told_to_end",
            "run.fairness": "BACKGROUND_BELOW",
            "run.hanging": "MOST_HANGING",
            "run.queue": "QueueState",
            "settings": "DEFAULT_POOL Handler QueueSettings REMOTE WorkerSettings own_queue",
            "settle.batches": "SettleAnswer in_order lock_steps lock_visits settle_arguments "
            "settle_values",
            "statements": "SQL:KERNEL_SQL read_now register_queues",
            "visit": "DEFAULT_PRIORITY EARLIEST LATEST PRIORITIES Respite Run START StopFlag Visit instant",
        },
    )
