"""What a bulk operation of an operator's is made of. Layers declare kinds of them; jobs carry them out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainspring.db.database import Database


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What a step did to one item."""

    queue: str
    key: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class OperationPage:
    """The items of a step, and where the next one begins (JSON); None: this step is the last.

    A step that goes slowly waits after its items; one without items that is not the last only waits.
    """

    items: Sequence[Any]
    position: str | None
    wait: float = 0.0  # seconds before the next step
    why: str | None = None  # what it waits for


@dataclass(frozen=True, slots=True)
class OperationKind:
    """A kind of operation. `order` is the dataclass that says what is asked; it is kept as JSON.

    `freeze` fixes the order at its start, so that what happens later does not widen it. `count`
    estimates the items, `page` reads some, `apply` changes them in the settling transaction.
    """

    name: str
    order: type
    freeze: Callable[[Any, datetime], Any]
    count: Callable[[Database, Any, Any], Awaitable[int | None]]
    page: Callable[[Database, Any, Any, str | None, int], Awaitable[OperationPage]]
    apply: Callable[[Database, Any, Any, Sequence[Any]], Awaitable[list[ItemResult]]]
    counted: bool = (
        False  # items are only counted: there may be millions, and each is seen elsewhere
    )
