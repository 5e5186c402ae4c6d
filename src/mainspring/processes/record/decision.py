"""A decision: what one run of a task came to, as frozen data that can travel as JSON.

Promises are named by number if the decision makes them (the child's place in `children`), else by
id: those are edges of the deciding task itself. Whatever a remote actor sends is judged by the same
`validate` as what our own deciders recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import TypeVar

import msgspec

from mainspring.errors import InvalidArguments
from mainspring.failure_text import fingerprint_of
from mainspring.kernel import PRIORITIES
from mainspring.processes.record.arguments import read_holes
from mainspring.processes.record.race import SOME_OF, terms_of
from mainspring.shape import fault
from mainspring.tasks.declare.promise import Failure
from mainspring.tasks.declare.signature import PAYLOAD_BYTES
from mainspring.tasks.declare.storable import check_storable

# Children of one decision. Past it: .map(), whose children are made by hidden deciders.
CHILDREN_LIMIT = 20_000
# From the strongest on: a promise passed in two ways to one call is one edge of the stronger kind.
KINDS = ("value", "outcome", "order", "handle")
BUILTINS = frozenset(
    {
        "@signal",
        "@sleep",
        "@lock",
        "@process",
        "@first_of",
        "@some_of",
        "@call_off",
        "@answer",
        "@choose",
        "@repeat",
        "@every",
        "@each",
        "@kept",
        "@gather",
        "@concat",
        "@leave",
        "@map",
        "@pass_on",
    }
)

Ref = int | str
T = TypeVar("T")


class Edge(msgspec.Struct, frozen=True):
    """A child's interest in a promise."""

    promise: Ref
    kind: str


class Undo(msgspec.Struct, frozen=True):
    """A call to be made if a scope fails: a step's compensation, or the scope's handler."""

    actor: str
    args: str
    args_version: int = 1
    # Its hole 0 is the outcome of the step that it undoes.
    takes_outcome: bool = False


class ChildTask(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task that the decision adds. `args` is a JSON object, with holes where promises go."""

    actor: str
    args: str = "{}"
    edges: tuple[Edge, ...] = ()
    args_version: int = 1
    scope: int | None = None  # None: the scope of the deciding task
    undo: Undo | None = None
    delay: float | None = None  # seconds
    at: datetime | None = None
    priority: int | None = None
    group: str | None = None
    daemon: bool = False  # does not keep its process open
    task_timeout: float | None = None  # None: as the actor's settings say
    on_task_timeout: str | None = None


class Scope(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tasks that fail together. `result` is the child that waits for them all (`@leave`)."""

    result: int
    parent: int | None = None  # None: the scope of the deciding task
    on_error: Undo | None = None
    timeout: float | None = None  # seconds
    name: str | None = None  # by which it can be called off


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run decided: children, and one of a returned promise, an error, a result."""

    children: tuple[ChildTask, ...] = ()
    scopes: tuple[Scope, ...] = ()
    attrs: dict[str, object] | None = None  # united with the process's
    returned: Ref | None = None
    result: str | None = None  # JSON; None is null
    error: Failure | None = None

    def encode(self) -> bytes:
        """As JSON, for actors that are not functions of a worker."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(text: str | bytes) -> Decision:
        """From JSON; raises msgspec.ValidationError."""
        return _decoder.decode(text)


class Recorded(Decision, frozen=True, omit_defaults=True):
    """A decision that a recorder made: it refuses at the call what `validate` would find later."""


_decoder = msgspec.json.Decoder(Decision)


def validate(
    decision: Decision, given: Collection[str], limit: int = CHILDREN_LIMIT
) -> Failure | None:
    """Why the decision cannot be committed, or None.

    `given` are the promises on which the deciding task has edges. A decision that names only these
    and earlier children of its own can reach neither another process nor a cycle.
    """
    for problem in _problems(decision, given, limit):
        return Failure("mainspring.errors.InvalidDecision", problem)
    return None


def _problems(decision: Decision, given: Collection[str], limit: int) -> Iterator[str]:
    children = decision.children
    is_recorded = type(decision) is Recorded
    if len(children) > limit:
        yield (
            f"the decision makes {len(children)} tasks, the limit is {limit}; "
            "use task.map(items), which makes them in chunks"
        )
    for n, child in enumerate(children):
        if not is_recorded:
            yield from _of_call(n, child, given)
        yield from _of_options(n, child, decision)
    for n, scope in enumerate(decision.scopes):
        yield from _of_scope(n, scope, decision)
    if is_recorded:
        return
    if decision.returned is not None:
        if decision.error is not None or decision.result is not None:
            yield "the decision returns a promise and a result or an error: one of them only"
        if not _is_known(decision.returned, len(children), given):
            yield _unknown("the decision returns", decision.returned)
    if decision.error is not None and (children or decision.scopes or decision.result is not None):
        yield "the decision is an error and has tasks or a result: those of a failed attempt never exist"
    if decision.result is not None and (problem := _of_json(decision.result, _any)) is not None:
        yield f"the result {problem}"


def _of_call(n: int, child: ChildTask, given: Collection[str]) -> Iterator[str]:
    edges = child.edges
    if not child.actor or (child.actor.startswith("@") and child.actor not in BUILTINS):
        yield f"task {n} has the actor {child.actor!r}, which is none"
    if len(edges) > 1 and len(edges) != len({edge.promise for edge in edges}):
        yield f"{_named(n, child)} has two edges on one promise; name it once, by the stronger kind"
    if child.actor == SOME_OF:
        yield from _of_race(n, child)
    for edge in edges:
        if edge.kind not in KINDS:
            yield (
                f"{_named(n, child)} has an edge of the kind {edge.kind!r}; "
                f"it is one of {', '.join(KINDS)}"
            )
        if not _is_known(edge.promise, n, given):
            yield _unknown(f"{_named(n, child)} is given", edge.promise)
    if (problem := _of_json(child.args, _object)) is not None:
        yield f"the arguments of {_named(n, child)} {problem}"
    for number in _loose_holes(child.args, len(edges)):
        yield f"{_named(n, child)} has a hole for input {number}, and {len(edges)} inputs"


def _of_race(n: int, child: ChildTask) -> Iterator[str]:
    try:
        terms = terms_of(child.actor, child.args)
    except msgspec.MsgspecError as error:
        yield f"the terms of {_named(n, child)} cannot be read: {fault(error)}"
        return
    outcomes = sum(edge.kind == "outcome" for edge in child.edges)
    if terms.need > outcomes or outcomes < len(child.edges):
        yield (
            f"{_named(n, child)} needs {terms.need} of {len(child.edges)} promises, of which "
            f"{outcomes} are edges of the kind 'outcome': all are, and not fewer than it needs"
        )


def _of_options(n: int, child: ChildTask, decision: Decision) -> Iterator[str]:
    if child.scope is not None and not 0 <= child.scope < len(decision.scopes):
        yield f"{_named(n, child)} is in scope {child.scope}, which the decision does not open"
    if child.undo is not None:
        yield from _of_undo(f"the compensation of {_named(n, child)}", child.undo)
    if child.delay is not None and not 0 <= child.delay <= 10_000_000_000:
        yield f"{_named(n, child)} has the delay {child.delay!r}, which is not 0 or more seconds"
    if child.priority is not None and child.priority not in PRIORITIES:
        yield f"{_named(n, child)} has the priority {child.priority!r}, which is not 0 to 9"
    if child.group is not None and not 1 <= len(child.group.encode()) <= 255:
        yield f"{_named(n, child)} has a group of {len(child.group.encode())} bytes, not 1 to 255"
    if child.on_task_timeout not in (None, "slide", "force"):
        yield (
            f"{_named(n, child)} has on_task_timeout {child.on_task_timeout!r}; "
            "it is 'slide' or 'force'"
        )


def _named(n: int, child: ChildTask) -> str:
    return f"task {n} ({child.actor})"


def _of_scope(n: int, scope: Scope, decision: Decision) -> Iterator[str]:
    if scope.parent is not None and not 0 <= scope.parent < n:
        yield f"scope {n} lies in scope {scope.parent}, which is not opened before it"
    if not 0 <= scope.result < len(decision.children):
        yield f"scope {n} ends with task {scope.result}, which the decision does not make"
    elif decision.children[scope.result].scope != n:
        yield f"scope {n} ends with task {scope.result}, which is not in it"
    if scope.on_error is not None:
        yield from _of_undo(f"the handler of scope {n}", scope.on_error)
    if scope.timeout is not None and not scope.timeout > 0:
        yield f"scope {n} has the timeout {scope.timeout!r}, which is not more than 0 seconds"
    if scope.name is not None and not 1 <= len(scope.name.encode()) <= 200:
        yield f"scope {n} has a name of {len(scope.name.encode())} bytes, not 1 to 200"


def _of_undo(what: str, undo: Undo) -> Iterator[str]:
    if not undo.actor or undo.actor.startswith("@"):
        yield f"{what} has the actor {undo.actor!r}, which is none"
    if (problem := _of_json(undo.args, _object)) is not None:
        yield f"the arguments of {what} {problem}"
    edges = 1 if undo.takes_outcome else 0
    for number in _loose_holes(undo.args, edges):
        yield f"{what} has a hole for input {number}, and {edges} inputs"


def _loose_holes(args: str, edges: int) -> list[int]:
    return [n for kind, n in read_holes(args) if kind != "error" and n >= edges]


def _is_known(ref: Ref, below: int, given: Collection[str]) -> bool:
    return ref in given if isinstance(ref, str) else 0 <= ref < below


def _unknown(what: str, ref: Ref) -> str:
    if isinstance(ref, str):
        return (
            f"{what} the promise {ref!r}, which this task was not given: a promise can be passed "
            "on only by the decision that makes it, or by a task that has it as an argument"
        )
    return f"{what} the promise of task {ref}, which the decision has not made before it"


_any = msgspec.json.Decoder(object)
_object = msgspec.json.Decoder(dict[str, object])


def _of_json(text: str, decoder: msgspec.json.Decoder[T]) -> str | None:
    if len(text) > PAYLOAD_BYTES:
        return f"must be at most {PAYLOAD_BYTES} bytes, got {len(text)}; store them elsewhere"
    try:
        check_storable("must not contain", text.encode(), decoder.decode(text))
    except InvalidArguments as error:
        return str(error)
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        return f"cannot be read as JSON: {fault(error)}; got {len(text)} characters"
    return None


# -- failures that are alike


def fingerprint(actor: str, failure: Failure) -> str:
    """Equal for failures that are alike: actor, type, message without its values, last frame."""
    return fingerprint_of(actor, failure.type, failure.message, failure.trace)
