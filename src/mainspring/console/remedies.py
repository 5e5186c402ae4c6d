"""What moves something that stands still, as a button: the order that the remedy of a cause names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mainspring.console.words import link
from mainspring.operate.why import Why


@dataclass(frozen=True, slots=True)
class Remedy:
    """A button under a cause. `action`: an order, with the fields of its form; else `path`: where to go."""

    text: str
    action: str = ""
    fields: Mapping[str, str | None] = field(default_factory=dict)
    path: str = ""
    asks: tuple[str, str] | None = None  # a field that the person fills in: its name and its label
    is_previewed: bool = False


@dataclass(frozen=True, slots=True)
class CauseShown:
    """A cause why something stands still, what moves it in words, and the button."""

    name: str
    text: str
    remedy: str
    button: Remedy | None


# What goes on by itself: nobody is needed.
CALM = frozenset(
    (
        *("running", "scheduled", "about_to_run", "not_found", "backoff", "turn_busy", "orphaned"),
        *(
            "no_owner",
            "coming_back",
            "breaker_tried",
            "expired",
            "finished",
            "cancelled",
            "backlog",
        ),
        *("waiting_for_timer", "waiting_for_child"),
    )
)


def standing(why: Why) -> list[CauseShown]:
    """The causes of a visit with their buttons."""
    return [
        CauseShown(c.name, c.text, c.remedy, of_visit(c.name, why.queue, why.key, why.group))
        for c in why.causes
    ]


def of_visit(cause: str, queue: str, key: str, group: str | None = None) -> Remedy | None:
    """What moves a visit that waits for this cause; None: nothing has to be done, or not here."""
    one = {"queue": queue, "key": key, "group": group}
    match cause:
        case "parked":
            return Remedy("Restart", "parked.restart", one)
        case "paused":
            return Remedy(f"Resume {queue}", "queues.resume", {"queue": queue})
        case "breaker_open" | "breaker_tried":
            return Remedy("Close the breaker", "breakers.close", {"queue": queue})
        case "scheduled" | "backoff":
            return Remedy("Run now", "tasks.run_now", one)
        case "unknown_queue":
            return Remedy("Cancel", "tasks.cancel", one)
        case "queue_full" | "rate_limited" | "group_busy":
            return Remedy("See the limits", path=link("/queues/one", name=queue))
        case "no_worker" | "no_owner" | "owner_silent" | "owner_lacks_queue" | "away":
            return Remedy("See the workers", path="/workers")
    return None


def of_process(
    cause: str, process: str, task: str | None, actor: str, signal: str
) -> Remedy | None:
    """What moves a process: of the task that the cause is about, its actor and the signal it waits for."""
    match cause:
        case "parked_task":
            fields = {"actor": actor}
            return Remedy(
                f"Restart all of {actor}", "operations.restart_tasks", fields, is_previewed=True
            )
        case "waiting_for_signal":
            fields = {"id": process, "name": signal}
            asks = ("payload", "payload as JSON")
            return Remedy(f"Send {signal}", "processes.signal", fields, asks=asks)
        case "broken_invariant" | "inconsistent" | "nothing_open" | "finished" | "cancelled":
            return None
        case "engine_off":
            return Remedy("See the workers", path="/workers")
        case "waiting_for_child" | "waiting_for_timer" | "cancelling" | "backlog":
            return None
    return None if task is None else of_visit(cause, actor, task)
