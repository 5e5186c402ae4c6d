"""The kernel: one durable table of visits.

A *visit* is a wish: queue Q should look at key K at time T. The kernel offers, reads, runs and
settles visits so that none is lost and none is settled twice. It knows nothing of what a visit
means; the layers above say that.

Leases decide who reads; tokens decide what counts. `docs/design/kernel.md` has the protocol, the
invariants and the traps. `docs/design/layers.md` says what a layer is.

    visit.py keys.py        a visit, a run of it, ids, tokens and routes
    outcome.py retry.py     what a run can come to, and what a failure leads to
    settings.py             settings of a worker and of a queue
    layer.py                what a layer is to a worker, and a worker to its layers
    offer.py copy_in.py     visits are added, or merged into those that are there
    functions/              functions of the schema that write visits, for layers' statements and for users
    statements.py query.py  the statements of all rooms by name, and asking by name
    clock.py                local time, and the database's as this worker knows it
    owned.py                what a worker owns and runs, shared by its loop and its heart
    crash_points.py         the named steps at which tests observe a worker or kill it
    doctor.py               looks at everything, and says what is wrong
    worker.py               puts the rooms together

    read/     due visits come into memory        run/      slots execute them
    settle/   outcomes are written               lease/    who owns which shards, who is alive
    limits/   how much may run at once           jobs/     bulk operations, cron, upkeep
    operate/  what an operator asks and orders

This file is the door: a layer imports the names below (and the modules `clock` and `crash_points`), and
nothing behind them. They are imported when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazily import on_demand

if TYPE_CHECKING:
    from mainspring.kernel.copy_in import copy_asyncpg, copy_psycopg, copy_sync
    from mainspring.kernel.doctor import LEVELS, Finding
    from mainspring.kernel.jobs.bulk import OPERATIONS
    from mainspring.kernel.jobs.cron import check_schedule, next_tick
    from mainspring.kernel.jobs.operation import (
        ItemResult,
        Operation,
        OperationKind,
        OperationPage,
        list_operations,
        start_operation,
    )
    from mainspring.kernel.jobs.recurring import Schedule, sync_recurring
    from mainspring.kernel.layer import BlamedVisit, Layer, WorkerPort
    from mainspring.kernel.lease.session import cut_socket
    from mainspring.kernel.offer import Offer, offer_new_visits, offer_visits
    from mainspring.kernel.operate.history import (
        HistoryFilter,
        HistoryPosition,
        PastRun,
        search_history,
    )
    from mainspring.kernel.operate.parked import ParkedPlace, restart_parked
    from mainspring.kernel.operate.queues import QUEUE_LIMITS, check_limit, nearest
    from mainspring.kernel.operate.register import register_queues
    from mainspring.kernel.operate.rights import explaining, missing_rights
    from mainspring.kernel.operate.why import VISIT_REMEDIES, why_visit
    from mainspring.kernel.outcome import (
        DONE,
        Again,
        Alone,
        Cancelled,
        Done,
        Failed,
        Outcome,
        Parked,
        Retry,
        Verdict,
    )
    from mainspring.kernel.query import ask, check_page, decoded
    from mainspring.kernel.read.background import BACKGROUND_BELOW
    from mainspring.kernel.retry import (
        LONGEST_DELAY,
        MOST_ATTEMPTS,
        STEEPEST,
        RetryPolicy,
        clean_text,
        describe,
        judge,
    )
    from mainspring.kernel.run.hanging import MOST_HANGING
    from mainspring.kernel.run.threads import to_its_end
    from mainspring.kernel.settings import (
        DEFAULT_POOL,
        POSITIVE,
        REMOTE,
        SECONDS,
        STARTS,
        Handler,
        QueueSettings,
        WorkerSettings,
        check_number,
        check_whole,
        own_queue,
    )
    from mainspring.kernel.settle.batches import in_order, settle_arguments
    from mainspring.kernel.settle.locks import find_values, lock_values, lock_visits
    from mainspring.kernel.statements import SQL as KERNEL_SQL
    from mainspring.kernel.visit import (
        DEFAULT_PRIORITY,
        EARLIEST,
        LATEST,
        PRIORITIES,
        START,
        Run,
        Visit,
        grouped_key,
        new_id,
        new_ids,
        new_visit,
        rising_ids,
        shard_of,
        shards_of,
        token,
        tokens,
    )
else:
    __getattr__ = on_demand(
        __name__,
        {
            "copy_in": "copy_asyncpg copy_psycopg copy_sync",
            "jobs.bulk": "OPERATIONS",
            "jobs.cron": "check_schedule next_tick",
            "jobs.operation": "OperationKind Operation OperationPage ItemResult "
            "list_operations start_operation",
            "jobs.recurring": "Schedule sync_recurring",
            "layer": "BlamedVisit Layer WorkerPort",
            "lease.session": "cut_socket",
            "offer": "Offer offer_visits offer_new_visits",
            "doctor": "Finding LEVELS",
            "operate.history": "HistoryFilter HistoryPosition PastRun search_history",
            "operate.parked": "ParkedPlace restart_parked",
            "operate.queues": "QUEUE_LIMITS check_limit nearest",
            "operate.register": "register_queues",
            "operate.rights": "explaining missing_rights",
            "operate.why": "VISIT_REMEDIES why_visit",
            "outcome": "Again Alone Cancelled DONE Done Failed Outcome Parked Retry Verdict",
            "query": "ask check_page decoded",
            "read.background": "BACKGROUND_BELOW",
            "retry": "LONGEST_DELAY MOST_ATTEMPTS RetryPolicy STEEPEST clean_text judge describe",
            "run.hanging": "MOST_HANGING",
            "run.threads": "to_its_end",
            "settings": "DEFAULT_POOL Handler POSITIVE QueueSettings REMOTE SECONDS STARTS WorkerSettings "
            "check_number check_whole own_queue",
            "settle.batches": "in_order settle_arguments",
            "settle.locks": "find_values lock_values lock_visits",
            "statements": "SQL:KERNEL_SQL",
            "visit": "DEFAULT_PRIORITY EARLIEST LATEST PRIORITIES Run START Visit grouped_key new_id "
            "new_ids new_visit rising_ids shard_of shards_of token tokens",
        },
    )

__all__ = [
    "BACKGROUND_BELOW",
    "DEFAULT_POOL",
    "DEFAULT_PRIORITY",
    "DONE",
    "EARLIEST",
    "KERNEL_SQL",
    "LATEST",
    "LEVELS",
    "LONGEST_DELAY",
    "MOST_ATTEMPTS",
    "MOST_HANGING",
    "OPERATIONS",
    "POSITIVE",
    "PRIORITIES",
    "QUEUE_LIMITS",
    "REMOTE",
    "SECONDS",
    "START",
    "STARTS",
    "STEEPEST",
    "VISIT_REMEDIES",
    "Again",
    "Alone",
    "BlamedVisit",
    "Cancelled",
    "Done",
    "Failed",
    "Finding",
    "Handler",
    "HistoryFilter",
    "HistoryPosition",
    "ItemResult",
    "Layer",
    "Offer",
    "Operation",
    "OperationKind",
    "OperationPage",
    "Outcome",
    "Parked",
    "ParkedPlace",
    "PastRun",
    "QueueSettings",
    "Retry",
    "RetryPolicy",
    "Run",
    "Schedule",
    "Verdict",
    "Visit",
    "WorkerPort",
    "WorkerSettings",
    "ask",
    "check_limit",
    "check_number",
    "check_page",
    "check_schedule",
    "check_whole",
    "clean_text",
    "copy_asyncpg",
    "copy_psycopg",
    "copy_sync",
    "cut_socket",
    "decoded",
    "describe",
    "explaining",
    "find_values",
    "grouped_key",
    "in_order",
    "judge",
    "list_operations",
    "lock_values",
    "lock_visits",
    "missing_rights",
    "nearest",
    "new_id",
    "new_ids",
    "new_visit",
    "next_tick",
    "offer_new_visits",
    "offer_visits",
    "own_queue",
    "register_queues",
    "restart_parked",
    "rising_ids",
    "search_history",
    "settle_arguments",
    "shard_of",
    "shards_of",
    "start_operation",
    "sync_recurring",
    "to_its_end",
    "token",
    "tokens",
    "why_visit",
]
