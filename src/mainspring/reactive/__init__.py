"""Reactive tasks: functions that run when the state of the data says so.

An object of the data platform has params (`values`): named values, mostly "loaded up to". Whoever
changes the data sets them. A task may have a trigger (`triggers`) instead of a cron line: from the
clock, the current values and those that the task saw at its last successful run, it says whether the
event has happened.

    from mainspring.reactive import all_of, caught_up, new_day

    runtime.py     the layer of one worker: its queues, connections and registration
    queues.py      the engine's queues of this layer, by what their visits mean
    statements.py  the statements of all rooms, by name
    model/         params, chunks of time and triggers as data (pure)
    decide/        from values to a verdict, a firing, a reason (pure)
    schedule/      changes lead to checks, checks to firings, firings to slots
    run/           firings are run, and what they came to is written
    declare/       what users declare and call
    operate/       what operators ask and order
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazily import on_demand

if TYPE_CHECKING:
    from mainspring.reactive.declare.context import ReactiveRun
    from mainspring.reactive.declare.task import ReactiveTask
    from mainspring.reactive.model.chunks import Chunk
    from mainspring.reactive.model.gates import cron
    from mainspring.reactive.model.plain import (
        all_arrived,
        any_arrived,
        caught_up,
        fresh,
        grown_by,
        in_this_chunk,
        new_chunk,
        new_data,
        new_day,
        new_hour,
        new_month,
        new_week,
    )
    from mainspring.reactive.model.triggers import (
        ChunkDelay,
        ChunkDelta,
        ChunkRefDelay,
        Delay,
        Delta,
        RefDelay,
        Trigger,
        all_of,
        any_of,
    )
    from mainspring.reactive.model.values import Param

__all__ = [
    "Chunk",
    "ChunkDelay",
    "ChunkDelta",
    "ChunkRefDelay",
    "Delay",
    "Delta",
    "Param",
    "ReactiveRun",
    "ReactiveTask",
    "RefDelay",
    "Trigger",
    "all_arrived",
    "all_of",
    "any_arrived",
    "any_of",
    "caught_up",
    "cron",
    "fresh",
    "grown_by",
    "in_this_chunk",
    "new_chunk",
    "new_data",
    "new_day",
    "new_hour",
    "new_month",
    "new_week",
]

if not TYPE_CHECKING:  # an operator's question does not need them
    __getattr__ = on_demand(
        __name__,
        {
            "model.chunks": "Chunk",
            "declare.context": "ReactiveRun",
            "model.gates": "cron",
            "declare.task": "ReactiveTask",
            "model.triggers": "ChunkDelay ChunkDelta ChunkRefDelay Delay Delta RefDelay Trigger "
            "all_of any_of",
            "model.values": "Param",
            "model.plain": "all_arrived any_arrived caught_up fresh "
            " grown_by in_this_chunk new_chunk new_data new_day new_hour new_month new_week",
        },
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
