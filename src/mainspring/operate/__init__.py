"""What an operator asks and orders, above the kernel's door.

audit.py       what was ordered, by whom, by which door
breakers.py    breakers that are not closed; opens and closes them
calls.py       live calls of tasks by a filter
doctor.py      looks at the server, the schema and the tables, and says what is wrong
history.py     searches past runs by queue, key, time, outcome, error and payload field
invariants.py  looks for broken invariants (`mainspring.violation`) within a bounded time
keys.py        keys as users know them and as visits have them
parked.py      parked visits: listed, counted, restarted, cancelled
queues.py      queues: their load, pause and resume, limits
rights.py      which rights a role lacks, for the doctor
statements.py  the statements by name
status.py      the engine at a glance: workers, pools, queues, lag, throughput
tokens.py      whose tokens for the server expire soon
visits.py      live visits: found by key, listed by queue
why.py         why a visit has not run: named causes with facts
sql/           the statements, one a file; those that write visits are in the kernel

This file is the door: layers import the names below and nothing behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazily import on_demand

if TYPE_CHECKING:
    from mainspring.operate.audit import Origin, PastOrder, ordered_by, origin, record_order
    from mainspring.operate.calls import CallFilter, count_calls, page_calls
    from mainspring.operate.doctor import LEVELS, Finding
    from mainspring.operate.history import (
        FINAL,
        HistoryFilter,
        HistoryPosition,
        PastRun,
        count_history,
        put_back,
        search_history,
    )
    from mainspring.operate.parked import (
        ParkedFilter,
        ParkedPlace,
        ParkedPosition,
        ParkedVisit,
        call_off_visits,
        cancel_visits,
        count_parked,
        list_parked,
        make_due,
        restart_parked,
    )
    from mainspring.operate.queues import (
        QUEUE_LIMITS,
        check_limit,
        pause_queue,
        resume_queue,
    )
    from mainspring.operate.rights import explaining, missing_rights
    from mainspring.operate.status import WorkerStatus, list_workers
    from mainspring.operate.visits import LiveVisit, find_visit
    from mainspring.operate.why import VISIT_REMEDIES, why_visit
else:
    __getattr__ = on_demand(
        __name__,
        {
            "audit": "Origin PastOrder ordered_by origin record_order",
            "calls": "CallFilter count_calls page_calls",
            "doctor": "Finding LEVELS",
            "history": "FINAL HistoryFilter HistoryPosition PastRun count_history put_back search_history",
            "parked": "ParkedFilter ParkedPlace ParkedPosition ParkedVisit call_off_visits "
            "cancel_visits count_parked list_parked make_due restart_parked",
            "queues": "QUEUE_LIMITS check_limit pause_queue resume_queue",
            "rights": "explaining missing_rights",
            "status": "WorkerStatus list_workers",
            "visits": "LiveVisit find_visit",
            "why": "VISIT_REMEDIES why_visit",
        },
    )
