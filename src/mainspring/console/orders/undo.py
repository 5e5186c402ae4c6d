"""What takes an order back, where the engine can: a pause, a resume, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from urllib.parse import parse_qsl, urlencode

from mainspring.console.look import Visitor
from mainspring.console.orders.form import MOST_MINUTES, Form

# An order, its reverse, and the fields that both are about.
REVERSES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "queues.pause": ("queues.resume", ("queue",)),
    "queues.resume": ("queues.pause", ("queue",)),
    "queues.limit": ("queues.limit", ("queue",)),
    "recurring.pause": ("recurring.resume", ("name",)),
    "recurring.resume": ("recurring.pause", ("name",)),
    "reactive.pause": ("reactive.resume", ("task",)),
    "reactive.resume": ("reactive.pause", ("task",)),
    "sources.pause": ("sources.resume", ("source",)),
    "operations.pause": ("operations.resume", ("id",)),
    "operations.resume": ("operations.pause", ("id",)),
}
LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Reverse:
    """An order that takes another back."""

    action: str
    fields: Mapping[str, str]

    def encoded(self) -> str:
        """As part of an address."""
        return urlencode({"order": self.action, **self.fields})

    def told(self) -> str:
        """What it would do."""
        fields = (f"{name} {value}" for name, value in self.fields.items() if value != "1")
        return f"{self.action}: {', '.join(fields)}"


async def undo_of(look: Visitor, action: str, form: Form) -> Reverse | None:
    """What would take this order back; asked before it is given."""
    if action not in REVERSES:
        return None
    reverse, names = REVERSES[action]
    fields = {name: form[name] for name in names if name in form}
    if action.startswith("queues."):
        found = await look.operator.queues(name=fields.get("queue", ""))
        if not found:
            return None
        was_paused = found[0].paused_at is not None
        if action == "queues.pause" and was_paused:
            reverse = "queues.pause"  # as it was before
        if action == "queues.resume" and not was_paused:
            return None
        if reverse == "queues.pause":
            fields |= {"reason": found[0].pause_reason} if found[0].pause_reason else {}
            if (until := found[0].paused_until) is not None:
                minutes = ceil((until - await look.operator.now()).total_seconds() / 60)
                if not 0 < minutes <= MOST_MINUTES:
                    return None
                fields |= {"minutes": str(minutes)}
        for name in [name[4:] for name in form if name.startswith("set_")]:
            value = getattr(found[0], name, None)
            fields |= {f"set_{name}": "1"} | ({} if value is None else {name: str(value)})
    undo = Reverse(reverse, fields)
    return undo if len(undo.encoded()) <= LONGEST else None


def read_undo(text: str) -> Reverse | None:
    """What an address offers to take back, if it is one of these orders."""
    try:
        fields = dict(parse_qsl(text, max_num_fields=30))
    except ValueError:
        return None
    action = fields.pop("order", "")
    return (
        Reverse(action, fields) if action in {reverse for reverse, _ in REVERSES.values()} else None
    )
