"""Recording what a decider calls, and making a decision of it. Pure: no I/O, no clock.

One recorder serves one run of one decider. A run that raises leaves nothing: its recorder is simply
thrown away, so the children of a failed attempt never exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import msgspec

from mainspring.errors import InvalidArguments, InvalidDecision, NoDecider, PromiseMisused
from mainspring.processes.record.arguments import ArgumentWriter, nested, without
from mainspring.processes.record.decision import (
    CHILDREN_LIMIT,
    KINDS,
    Decision,
    Recorded,
    Ref,
    Undo,
)
from mainspring.processes.record.draft import Draft, ScopeDraft
from mainspring.processes.record.map import record_map
from mainspring.tasks.declare.promise import Failure, Promise
from mainspring.tasks.declare.recording import recorder
from mainspring.tasks.declare.signature import Signature
from mainspring.tasks.declare.task import CallOptions


class Callee(Protocol):
    """What can be called in a decider: a task or a process."""

    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> Signature: ...
    @property
    def call_options(self) -> CallOptions: ...


class Recorder:
    """Takes the calls of one running decider. `given`: the promises that its task has edges on."""

    def __init__(
        self,
        given: Collection[str] = (),
        *,
        decider: str = "the decider",
        limit: int = CHILDREN_LIMIT,
        version_of: Callable[[str], int] = lambda _: 1,
    ) -> None:
        self.given = given
        self.decider = decider
        self.limit = limit
        self._version_of = version_of
        self._drafts: list[Draft] = []
        self._scopes: list[ScopeDraft] = []
        self._open: list[ScopeDraft] = []
        self._attrs: dict[str, Any] = {}
        self._writer: ArgumentWriter | None = None
        self._concluded = False

    # -- recording

    def call(self, task: Callee, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Promise[Any]:
        """Record the call of a task or an inline process."""
        self._check_open(f"{task.name}(...)")
        options = task.call_options
        check_options(task.name, options)
        _check_step(task.name, options)
        draft = self._draft(task.name)
        draft.args = self._write(draft, task.signature, args, kwargs)
        draft.delay = None if options.delay is None else options.delay.total_seconds()
        draft.at, draft.priority, draft.group = options.at, options.priority, options.group
        draft.args_version = self._version_of(task.name)
        return self._add(draft)

    def child(
        self,
        process: Callee,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        how: Mapping[str, Any],
    ) -> Promise[Any]:
        """Record the start of a child process, which waits for the promises among its arguments."""
        self._check_open(f"{process.name}.child(...)")
        check_options(process.name, process.call_options)
        draft = self._draft("@process")
        text = self._write(draft, process.signature, args, kwargs)
        if "handle" in draft.edges.values():
            raise InvalidArguments(
                f"{process.name}.child(...) cannot be given a promise as such, which belongs to this "
                "process; declare the parameter with the value's own type, or as an Outcome"
            )
        version = self._version_of(process.name)
        about = {"type": process.name, "version": version, **how}
        draft.args = nested(text, "args", about)
        return self._add(draft)

    def _write(
        self, draft: Draft, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> str:
        """The arguments of a call as JSON; the promises among them, and in `after`, are edges."""
        after = kwargs.pop("after", ()) if "after" not in signature.types else ()

        def place(promise: Promise[Any], kind: str) -> int:
            return self._link(draft, promise, kind)

        if self._writer is None:
            self._writer = ArgumentWriter(place)
        text = self._writer.write(signature, signature.bind(args, kwargs), place)
        for promise in _promises("after", after):
            self._link(draft, promise, "order")
        return text

    def map(
        self, task: Callee, items: Iterable[Any], named: dict[str, Any], *, window: int | None
    ) -> Promise[list[Any]]:
        """Record a call for each of many items, in chunks."""
        self._check_open(f"{task.name}.map(...)")
        return record_map(self, task, items, named, window=window)

    def builtin(
        self,
        actor: str,
        args: Mapping[str, Any],
        inputs: Sequence[Promise[Any]] = (),
        kind: str = "value",
        after: Sequence[Promise[Any]] = (),
    ) -> Promise[Any]:
        """Record a task of the engine's own; its argument `of` says which edges its inputs are."""
        self._check_open(actor)
        draft = self._draft(actor)
        # One promise may stand in several places, and is one edge all the same.
        of = [self._link(draft, promise, kind) for promise in inputs]
        draft.args = msgspec.json.encode({**args, "of": of} if of else dict(args)).decode()
        for promise in after:
            self._link(draft, promise, "order")
        return self._add(draft)

    def _draft(self, actor: str) -> Draft:
        return Draft(actor, scope=self._open[-1].number if self._open else None)

    def _add(self, draft: Draft) -> Promise[Any]:
        number = len(self._drafts)
        if number >= self.limit:
            raise InvalidDecision(
                f"{self.decider} makes more than {self.limit} tasks in one decision; "
                "use task.map(items), which makes them in chunks"
            )
        self._drafts.append(draft)
        if self._open:
            self._open[-1].members.append(number)
        return Promise(number, f"{draft.actor} (call {number + 1} of {self.decider})", self)

    def _link(self, draft: Draft, promise: Promise[Any], kind: str) -> int:
        """Make the promise an edge of the draft; answers its number among the draft's inputs."""
        ref = self.ref(promise)
        if kind != "handle":
            self._check_scope(draft, promise, ref, kind)
        had = draft.edges.get(ref)
        if had is None:
            draft.edges[ref] = kind
            return len(draft.edges) - 1
        if KINDS.index(kind) < KINDS.index(had):
            draft.edges[ref] = kind
        return list(draft.edges).index(ref)

    def ref(self, promise: Promise[Any]) -> Ref:
        """How the decision names a promise; refuses one that this decider has no right to."""
        if promise.maker is self:
            return promise.ref
        if promise.maker is None and promise.ref in self.given:
            return promise.ref
        if promise.maker is None:
            raise PromiseMisused(
                f"{promise!r} was not given to this task: a promise belongs to its process, and a task "
                "may pass on only those among its own arguments"
            )
        raise PromiseMisused(
            f"{promise!r} was made by another decision and cannot be used in {self.decider}: "
            "pass it as an argument, to a parameter of the type Promise[T]"
        )

    def _check_scope(self, draft: Draft, promise: Promise[Any], ref: Ref, kind: str) -> None:
        """What is made in a scope with a handler leaves it through the scope's own promise."""
        if not self._scopes or not isinstance(ref, int) or kind == "outcome":
            return
        around = set(self._around(draft.scope))
        for number in self._around(self._scope_of(ref)):
            if number in around:
                return
            if self._scopes[number].on_error is not None:
                raise PromiseMisused(
                    f"{promise!r} was made inside a scope with an error handler and is used outside of "
                    "it, where it would have no value if the scope fails: write `s.returns(promise)` "
                    "in the scope and use `s.promise` after it"
                )

    def _scope_of(self, ref: int) -> int | None:
        """The scope in which a promise has its value: that of a scope is one further out."""
        made_in = self._drafts[ref].scope
        if made_in is not None and self._scopes[made_in].leave == ref:
            return self._scopes[made_in].parent
        return made_in

    def _around(self, number: int | None) -> Iterator[int]:
        while number is not None:
            yield number
            number = self._scopes[number].parent

    def compensate(
        self, ref: Ref, undo: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Say how a recorded call is undone."""
        self._check_open("compensate(...)")
        assert isinstance(ref, int)
        draft = self._drafts[ref]
        if draft.actor.startswith("@"):
            raise PromiseMisused(f"{draft.actor[1:]!r} has no effect that could be undone")

        def own(promise: Promise[Any], kind: str) -> int:
            if self.ref(promise) != ref:
                raise PromiseMisused(
                    f"the compensation of {draft.actor!r} takes {promise!r}: it may take plain values "
                    "and the promise of the step that it undoes"
                )
            if kind != "outcome":
                raise PromiseMisused(
                    f"the compensation {undo.name!r} takes the step's result, so its parameter must be "
                    "of the type Outcome[T]: the step may have been stopped half way, without one"
                )
            return 0

        draft.undo = self._undo(undo, args, kwargs, own)

    def _undo(
        self,
        callee: Callee,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        place: Callable[[Promise[Any], str], int],
    ) -> Undo:
        if not hasattr(callee, "signature"):
            raise InvalidArguments(f"expected a task or a process, got {callee!r}")
        writer = ArgumentWriter(place)
        text = writer.write(callee.signature, callee.signature.bind(args, kwargs))
        return Undo(callee.name, text, self._version_of(callee.name), writer.has_holes)

    # -- scopes

    def open_scope(self, timeout: float | None) -> ScopeDraft:
        self._check_open("scope(...)")
        parent = self._open[-1].number if self._open else None
        scope = ScopeDraft(len(self._scopes), parent, timeout)
        self._scopes.append(scope)
        self._open.append(scope)
        return scope

    def handle_errors(
        self, scope: ScopeDraft, handler: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Name the call that is made when the scope fails; its Failure parameter gets the error."""
        self._check_open("on_error(...)")
        if not hasattr(handler, "signature"):
            raise InvalidArguments(
                f"on_error takes a task or a process, got {handler!r}; declare it with @app.task"
            )
        signature: Signature = handler.signature
        bound = signature.bind(args, kwargs)
        error = next((n for n, kind in signature.types.items() if kind is Failure), None)

        def none(promise: Promise[Any], _: str) -> NoReturn:
            raise PromiseMisused(
                f"the handler {handler.name!r} takes {promise!r}, which may have no value when the "
                "scope has failed: give it plain values"
            )

        if error is not None and error not in bound:
            writer = ArgumentWriter(none)
            text = writer.write(without(signature, error), bound)
            hole = f'"@":"{writer.word}","{error}":"{writer.word}:error:0"'
            text = "{" + hole + ("" if text == "{}" else "," + text[1:-1]) + "}"
            scope.on_error = Undo(handler.name, text, self._version_of(handler.name))
        else:
            scope.on_error = self._undo(handler, args, kwargs, none)

    def close_scope(self, scope: ScopeDraft) -> Promise[Any]:
        """Leave the scope: a task of its own waits for everything in it and has its result."""
        result = [] if scope.result is None else [scope.result]
        named = {self.ref(p) for p in result}
        rest = [Promise[Any](n, maker=self) for n in scope.members if n not in named]
        promise = self.builtin("@leave", {}, result, after=rest)
        assert isinstance(promise.ref, int)
        scope.leave = promise.ref
        self._open.pop()
        if self._open:  # it stands for the scope in the one around it
            self._open[-1].members.append(promise.ref)
        return promise

    # -- the decision

    def version_of(self, actor: str) -> int:
        """The version in which arguments of this actor are written now."""
        return self._version_of(actor)

    def set_attrs(self, attrs: Mapping[str, Any]) -> None:
        self._check_open("set_attrs(...)")
        self._attrs.update(attrs)

    def conclude(self, returned: Any, encode: Callable[[Any], str | None]) -> Decision:
        """The decision of a decider that returned this."""
        self._concluded = True
        self._writer = None  # it knows the recorder: a circle would be left to the collector
        children = tuple([draft.child() for draft in self._drafts])
        scopes = tuple([draft.scope() for draft in self._scopes])
        attrs = self._attrs or None
        if isinstance(returned, Promise):
            self._check_scope(Draft("return"), returned, self.ref(returned), "value")
            return Recorded(children, scopes, attrs, returned=self.ref(returned))
        return Recorded(children, scopes, attrs, result=encode(returned))

    def _check_open(self, what: str) -> None:
        if self._concluded:
            raise NoDecider(
                f"{what} was called after {self.decider} had decided: a decider's threads and tasks "
                "must end before it returns"
            )


def _promises(what: str, given: Any) -> Sequence[Promise[Any]]:
    if isinstance(given, Promise):
        return (given,)
    several: tuple[Any, ...] = tuple(given)
    for promise in several:
        if not isinstance(promise, Promise):
            raise InvalidArguments(
                f"{what} takes promises of calls, got {type(promise).__name__}: {promise!r}"
            )
    return several


def check_options(name: str, options: CallOptions) -> None:
    """Refuse what is for calls from outside."""
    refused = {"key": options.key, "expires_at": options.expires_at, "on": options.on}
    for option, value in refused.items():
        if value is not None:
            raise InvalidArguments(
                f"{name}.options({option}=...) does not apply in a decider: a step belongs to its "
                "process and is committed with it; use at, delay, priority or group"
            )


def _check_step(name: str, options: CallOptions) -> None:
    for option in ("id", "attrs"):
        if getattr(options, option, None) is not None:
            raise InvalidArguments(
                f"{name}.options({option}=...) does not apply to a step, which is a part of its "
                f"process; use {name}.options({option}=...).child(...), or set_attrs(...)"
            )


def current(what: str) -> Recorder:
    """The recorder of the running decider; an error for code outside of one."""
    found = recorder.get()
    if not isinstance(found, Recorder):
        raise NoDecider(
            f"{what} is for deciders: call it in a function declared with @app.process, while a worker "
            "runs it; to run one without a database use mainspring.testing.decide(...)"
        )
    return found
