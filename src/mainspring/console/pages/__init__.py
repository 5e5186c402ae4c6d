"""The screens: a function each. A page asks the operator's side and chooses a template."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mainspring.console.look import Page, Visitor
from mainspring.console.pages import (
    audit,
    doctor,
    entities,
    history,
    metrics,
    operations,
    overview,
    parked,
    processes,
    queues,
    reactive,
    recurring,
    services,
    settings,
    sources,
    tasks,
    workers,
)

PAGES: dict[str, Callable[[Visitor], Awaitable[Page]]] = {
    "/": overview.page,
    "/queues": queues.all_queues,
    "/queues/one": queues.one,
    "/tasks": tasks.found,
    "/tasks/one": tasks.one,
    "/parked": parked.groups,
    "/parked/group": parked.members,
    "/history": history.found,
    "/recurring": recurring.page,
    "/entities": entities.kinds,
    "/entities/kind": entities.kind,
    "/entities/one": entities.one,
    "/processes": processes.found,
    "/processes/one": processes.one,
    "/reactive": reactive.tasks,
    "/reactive/one": reactive.one,
    "/params": reactive.params,
    "/params/one": reactive.param,
    "/operations": operations.found,
    "/operations/one": operations.one,
    "/sources": sources.page,
    "/services": services.page,
    "/settings": settings.page,
    "/metrics": metrics.page,
    "/workers": workers.page,
    "/doctor": doctor.page,
    "/audit": audit.page,
    "/jump": tasks.jump,
}

# The rail: groups of screens, each with the key that goes there after `g`.
NAV = (
    ("", (("/", "Overview", "o"), ("/parked", "Parked", "p"), ("/operations", "Operations", "b"))),
    (
        "Work",
        (
            ("/queues", "Queues", "q"),
            ("/tasks", "Tasks", "t"),
            ("/history", "History", "h"),
            ("/recurring", "Schedules", "c"),
        ),
    ),
    (
        "Layers",
        (
            ("/entities", "Entities", "e"),
            ("/processes", "Processes", "s"),
            ("/reactive", "Reactive", "r"),
            ("/params", "Params", "v"),
            ("/sources", "Sources", "i"),
            ("/services", "Services", "x"),
        ),
    ),
    (
        "Engine",
        (
            ("/metrics", "Metrics", "m"),
            ("/workers", "Workers", "w"),
            ("/settings", "Settings", "n"),
            ("/doctor", "Doctor", "d"),
            ("/audit", "Audit", "a"),
        ),
    ),
)
