"""Options that many commands share."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mainspring.errors import InvalidSetting, NotFound
from mainspring.phrases import nearest

if TYPE_CHECKING:
    from mainspring.operator import Operator

T = TypeVar("T")
Url = Annotated[
    str | None,
    typer.Option("--url", help="The database; else MAINSPRING_URL, else that of MAINSPRING_APP."),
]
App = Annotated[
    str | None, typer.Option("--app", help="The application, module:name; else MAINSPRING_APP.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=500, help="At most so many rows.")]
Queue = Annotated[
    str | None, typer.Option("--queue", "--name", "-q", help="Of this queue only: a task's name.")
]
Group = Annotated[
    str | None, typer.Option("--group", help="Of this group; a key is a key within it.")
]
Since = Annotated[
    str | None, typer.Option("--since", help="A time with zone (2026-01-31T12:00Z) or 90s, 2h, 3d.")
]
Until = Annotated[str | None, typer.Option("--until", help="As --since.")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Look at everything, however long that takes.")
]
Reason = Annotated[str | None, typer.Option("--reason", help="Why, for those who look at it.")]
PauseUntil = Annotated[
    str | None,
    typer.Option("--until", help="Goes on by itself then: a time with zone, or in 90s, 2h, 3d."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what would be done.")]
FreshIds = Annotated[
    bool, typer.Option("--fresh-ids", help="With new idempotency keys instead of the old ones.")
]

_AGO = re.compile(r"^(\d+)([smhd])$")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


async def found_in(
    operator: Operator, queue: str | None, found: list[T], *, or_reactive: bool = False
) -> list[T]:
    """What was found; where that is nothing, the queue must at least be there."""
    if not found and queue is not None:
        await operator.check_queue(queue, or_reactive=or_reactive)
    return found


async def moment(operator: Operator, name: str, text: str | None) -> datetime | None:
    """A time option: an instant, or so long ago by the database's clock."""
    if text is None:
        return None
    if ago := _AGO.match(text):
        return await operator.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise InvalidSetting(
            f"--{name} must be a time with its zone, such as 2026-01-31T12:00Z, or 90s, 2h, 3d; "
            f"got {text!r}"
        )
    return at


async def later(operator: Operator, name: str, text: str | None) -> datetime | None:
    """A time option: an instant, or so long from now by the database's clock."""
    if text is None:
        return None
    if ahead := _AGO.match(text):
        return await operator.now() + timedelta(**{_UNITS[ahead[2]]: int(ahead[1])})
    return await moment(operator, name, text)


def pairs(name: str, given: list[str] | None) -> dict[str, object]:
    """Options of the form field=value; a value that is JSON is taken as such."""
    found: dict[str, object] = {}
    for text in given or []:
        field, sign, value = text.partition("=")
        if not sign or not field:
            raise InvalidSetting(f"--{name} must be field=value, got {text!r}")
        try:
            found[field] = json.loads(value)
        except ValueError:
            found[field] = value
    return found


def only(what: str, name: str | None, found: dict[str, T]) -> dict[str, T]:
    """All that were found, or the one of that name; an error that names the nearest otherwise."""
    if name is None:
        return found
    if name not in found:
        raise NotFound(f"no {what} is named {name!r}{nearest(name, found)}")
    return {name: found[name]}


def source() -> str:
    """Who gives an order from this terminal."""
    from mainspring.operate.audit import process_user

    return process_user()
