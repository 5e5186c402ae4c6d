"""What a record may do to this database. A source's function returns these; it does nothing itself.

All effects of a batch and its new offset are one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from mainspring.entities.documents import AnyDocuments
    from mainspring.entities.kind import AnyKind
    from mainspring.entities.outside.edit_batch import Changing
    from mainspring.processes.declare.decider_api import Signal
    from mainspring.processes.declare.process import Process
    from mainspring.reactive.model.values import AnyParam
    from mainspring.tasks.declare.task import Call


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Enqueue a call, made by `task.bind(...)`. Its id comes from the record, so it is one call however
    often the record is read."""

    call: Call[object]


@dataclass(frozen=True, slots=True)
class Advance:
    """Set a param forward, if this is more than it has."""

    param: AnyParam | str
    value: object


@dataclass(frozen=True, slots=True)
class SendSignal:
    """Send a signal to a process, found by its type and the key it was started with.

    `required=False`: where there is no such process, or it has ended, the signal is let go.
    """

    process: Process[..., object] | str
    key: str
    signal: Signal[object] | str
    payload: object = None
    required: bool = True


@dataclass(frozen=True, slots=True)
class Put:
    """Create a managed document, or overwrite it."""

    kind: AnyDocuments
    id: object
    value: object


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a managed document, if it is there: what a tombstone says."""

    kind: AnyDocuments
    id: object


@dataclass(frozen=True, slots=True)
class EditEntity:
    """Change an entity that is there, under its lock, as `kind.edit` does. The function is pure."""

    kind: AnyKind
    id: object
    change: Changing


Effect: TypeAlias = Enqueue | Advance | SendSignal | Put | Delete | EditEntity
