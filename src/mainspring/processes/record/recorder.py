"""Recording what a decider calls, and making a decision of it. Pure: no I/O, no clock.

One recorder serves one run of one decider. A run that raises leaves nothing: its recorder is simply
thrown away, so the children of a failed attempt never exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from mainspring.errors import InvalidArguments, InvalidDecision, NoDecider, PromiseMisused
from mainspring.processes.record.arguments import (
    ArgumentWriter,
    Callee,
    check_options,
    check_step,
    is_callee,
    nested,
    promises_after,
    without,
)
from mainspring.processes.record.decision import (
    CHILDREN_LIMIT,
    KINDS,
    ChildTask,
    Decision,
    Edge,
    Recorded,
    Ref,
    Undo,
)
from mainspring.processes.record.map import record_map
from mainspring.processes.record.race import RACES
from mainspring.processes.record.scope_draft import ScopeDraft, check_leaving, under_locks
from mainspring.processes.record.sealed_values import check_searchable
from mainspring.tasks.declare.promise import Failure, Promise
from mainspring.tasks.declare.recording import recorder
from mainspring.tasks.declare.signature import Signature

# Promises by how the decision names them, each with the strongest kind it is used by.
Edges = dict[Ref, str]


class Recorder:
    """Takes the calls of one running decider. `given`: the promises that its task has edges on."""

    def __init__(
        self,
        given: Collection[str] = (),
        *,
        decider: str = "the decider",
        limit: int = CHILDREN_LIMIT,
        version_of: Callable[[str], int] = lambda _: 1,
        searchable: Collection[str] | None = None,
    ) -> None:
        """`searchable`: the attributes that it may set, where values are encrypted; None: any."""
        self.given = given
        self.searchable = searchable
        self.decider = decider
        self.limit = limit
        self._version_of = version_of
        self._children: list[ChildTask] = []
        self._scopes: list[ScopeDraft] = []
        self._open: list[ScopeDraft] = []
        self._scope: int | None = None  # the innermost open one
        self._attrs: dict[str, object] = {}
        self._writer: ArgumentWriter | None = None
        self._concluded = False

    # -- recording

    def call(
        self, task: Callee, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Promise[Any]:
        """Record the call of a task or an inline process."""
        self._check_open(f"{task.name}(...)")
        options = task.call_options
        check_options(task.name, options)
        check_step(task.name, options)
        edges: Edges = {}
        text = self._write(edges, task.signature, args, kwargs)
        return self._add(
            ChildTask(
                task.name,
                text,
                _edges(edges),
                self._version_of(task.name),
                self._scope,
                delay=None if options.delay is None else options.delay.total_seconds(),
                at=options.at,
                priority=options.priority,
                group=options.group,
            )
        )

    def written(self, child: ChildTask) -> Promise[object]:
        """Record a call whose arguments are written and checked already."""
        self._check_open(f"{child.actor}(...)")
        return self._add(msgspec.structs.replace(child, scope=self._scope))

    def child(
        self,
        process: Callee,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        how: Mapping[str, object],
    ) -> Promise[Any]:
        """Record the start of a child process, which waits for the promises among its arguments."""
        self._check_open(f"{process.name}.child(...)")
        check_options(process.name, process.call_options)
        edges: Edges = {}
        text = self._write(edges, process.signature, args, kwargs)
        if "handle" in edges.values():
            raise InvalidArguments(
                f"{process.name}.child(...) cannot be given a promise as such, which belongs to this "
                "process; declare the parameter with the value's own type, or as an Outcome"
            )
        version = self._version_of(process.name)
        about = {"type": process.name, "version": version, **how}
        args_text = nested(text, "args", about)
        return self._add(ChildTask("@process", args_text, _edges(edges), scope=self._scope))

    def _write(
        self,
        edges: Edges,
        signature: Signature,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> str:
        """The arguments of a call as JSON; the promises among them, and in `after`, are edges."""
        after: Iterable[Promise[object]] = ()
        if "after" in kwargs and "after" not in signature.types:
            after = promises_after(kwargs.pop("after"))

        def place(promise: Promise[object], kind: str) -> int:
            return self._link(edges, promise, kind)

        if self._writer is None:
            self._writer = ArgumentWriter(place)
        text = self._writer.write(signature, signature.bind(args, kwargs), place)
        for promise in after:
            self._link(edges, promise, "order")
        return text

    def map(
        self,
        task: Callee,
        items: Iterable[object],
        named: dict[str, object],
        *,
        window: int | None,
    ) -> Promise[Any]:
        """Record a call for each of many items, in chunks."""
        self._check_open(f"{task.name}.map(...)")
        return record_map(self, task, items, named, window=window)

    def builtin(
        self,
        actor: str,
        args: Mapping[str, object],
        inputs: Sequence[Promise[object]] = (),
        kind: str = "value",
        after: Sequence[Promise[object]] = (),
        held: Sequence[Promise[object]] = (),
    ) -> Promise[Any]:
        """Record a task of the engine's own; its argument `of` says which edges its inputs are."""
        self._check_open(actor)
        edges: Edges = {}
        # One promise may stand in several places, and is one edge all the same.
        of = [self._link(edges, promise, kind) for promise in inputs]
        text = msgspec.json.encode({**args, "of": of} if of else dict(args)).decode()
        for promise in held:
            self._link(edges, promise, "handle")
        for promise in after:
            self._link(edges, promise, "order")
        return self._add(ChildTask(actor, text, _edges(edges), scope=self._scope))

    def _add(self, child: ChildTask) -> Promise[Any]:
        number = len(self._children)
        if number >= self.limit:
            raise InvalidDecision(
                f"{self.decider} makes more than {self.limit} tasks in one decision; "
                "use task.map(items), which makes them in chunks"
            )
        if self._open and child.actor not in RACES:
            child = under_locks(child, self._around(self._scope))
        self._children.append(child)
        if self._open:
            self._open[-1].members.append(number)
        return Promise(number, f"{child.actor} (call {number + 1} of {self.decider})", self)

    def take_lock(self, scope: ScopeDraft, name: str) -> None:
        """What is called in the scope from here on waits for the lock."""
        scope.check_lock(name, self._around(scope.number))
        scope.lock_with(name, self.builtin("@lock", {"name": name}))

    def _link(self, edges: Edges, promise: Promise[object], kind: str) -> int:
        """Make the promise an edge; returns its number among the inputs."""
        ref = self.ref(promise)
        if kind != "handle":
            self._check_scope(self._scope, promise, ref, kind)
        had = edges.get(ref)
        if had is None:
            edges[ref] = kind
            return len(edges) - 1
        if KINDS.index(kind) < KINDS.index(had):
            edges[ref] = kind
        return list(edges).index(ref)

    def ref(self, promise: Promise[object]) -> Ref:
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

    def check_use(self, promise: Promise[object], kind: str) -> None:
        """Refuse the use of a promise, here, that leaves a scope with a handler."""
        self._check_scope(self._scope, promise, self.ref(promise), kind)

    def _check_scope(
        self, scope: int | None, promise: Promise[object], ref: Ref, kind: str
    ) -> None:
        """What is made in a scope with a handler leaves it through the scope's own promise."""
        if self._scopes and isinstance(ref, int) and kind != "outcome":
            check_leaving(promise, self._around(scope), self._around(self._scope_of(ref)))

    def _scope_of(self, ref: int) -> int | None:
        """The scope in which a promise has its value: that of a scope is one further out."""
        made_in = self._children[ref].scope
        if made_in is not None and self._scopes[made_in].leave == ref:
            return self._scopes[made_in].parent
        return made_in

    def _around(self, number: int | None) -> Iterator[ScopeDraft]:
        while number is not None:
            scope = self._scopes[number]
            yield scope
            number = scope.parent

    def compensate(
        self, ref: Ref, undo: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        """Say how a recorded call is undone."""
        self._check_open("compensate(...)")
        assert isinstance(ref, int)
        step = self._children[ref]
        if step.actor.startswith("@"):
            raise PromiseMisused(f"{step.actor[1:]!r} has no effect that could be undone")
        if not is_callee(undo):
            raise InvalidArguments(f"expected a task or a process, got {undo!r}")

        def own(promise: Promise[object], kind: str) -> int:
            if self.ref(promise) != ref:
                raise PromiseMisused(
                    f"the compensation of {step.actor!r} takes {promise!r}: it may take plain values "
                    "and the promise of the step that it undoes"
                )
            if kind != "outcome":
                raise PromiseMisused(
                    f"the compensation {undo.name!r} takes the step's result, so its parameter must be "
                    "of the type Outcome[T]: the step may have been stopped half way, without one"
                )
            return 0

        undone = self._undo(undo, args, kwargs, own)
        self._children[ref] = msgspec.structs.replace(step, undo=undone)

    def _undo(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        place: Callable[[Promise[object], str], int],
    ) -> Undo:
        writer = ArgumentWriter(place)
        text = writer.write(callee.signature, callee.signature.bind(args, kwargs))
        return Undo(callee.name, text, self._version_of(callee.name), writer.has_holes)

    # -- scopes

    def open_scope(self, timeout: float | None, name: str | None = None) -> ScopeDraft:
        self._check_open("scope(...)")
        scope = ScopeDraft(len(self._scopes), self._scope, timeout, name)
        self._scopes.append(scope)
        self._open.append(scope)
        self._scope = scope.number
        return scope

    def handle_errors(
        self,
        scope: ScopeDraft,
        handler: object,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> None:
        """Name the call that is made when the scope fails; its Failure parameter gets the error."""
        self._check_open("on_error(...)")
        if not is_callee(handler):
            raise InvalidArguments(
                f"on_error takes a task or a process, got {handler!r}; declare it with @app.task"
            )
        name, signature = handler.name, handler.signature
        bound = signature.bind(args, kwargs)
        error = next((n for n, kind in signature.types.items() if kind is Failure), None)

        def none(promise: Promise[object], _: str) -> NoReturn:
            raise PromiseMisused(
                f"the handler {name!r} takes {promise!r}, which may have no value when the "
                "scope has failed: give it plain values"
            )

        if error is not None and error not in bound:
            writer = ArgumentWriter(none)
            text = writer.write(without(signature, error), bound)
            hole = f'"@":"{writer.word}","{error}":"{writer.word}:error:0"'
            text = "{" + hole + ("" if text == "{}" else "," + text[1:-1]) + "}"
            scope.handle_errors(Undo(name, text, self._version_of(name)))
        else:
            scope.handle_errors(self._undo(handler, args, kwargs, none))

    def name_result(self, scope: ScopeDraft, promise: Promise[object]) -> None:
        """The value of the promise is what the scope comes to."""
        scope.come_to(promise)

    def close_scope(self, scope: ScopeDraft) -> Promise[Any]:
        """Leave the scope: a task of its own waits for everything in it and has its result."""
        result = [] if scope.result is None else [scope.result]
        named = {self.ref(p) for p in result}
        rest = [Promise[object](n, maker=self) for n in scope.members if n not in named]
        promise = self.builtin("@leave", {}, result, after=rest)
        assert isinstance(promise.ref, int)
        scope.end_with(promise.ref)
        self._open.pop()
        self._scope = self._open[-1].number if self._open else None
        if self._open:  # it stands for the scope in the one around it
            self._open[-1].members.append(promise.ref)
        return promise

    # -- the decision

    def version_of(self, actor: str) -> int:
        """The version in which arguments of this actor are written now."""
        return self._version_of(actor)

    def set_attrs(self, attrs: Mapping[str, object]) -> None:
        self._check_open("set_attrs(...)")
        if self.searchable is not None:
            check_searchable(attrs, self.searchable, f"process {self.decider!r}")
        self._attrs.update(attrs)

    def conclude(self, returned: object, encode: Callable[[object], str | None]) -> Decision:
        """The decision of a decider that returned this."""
        self._concluded = True
        self._writer = None  # it knows the recorder: a circle would be left to the collector
        children = tuple(self._children)
        scopes = tuple([draft.scope() for draft in self._scopes])
        attrs = self._attrs or None
        if isinstance(returned, Promise):
            self._check_scope(None, returned, self.ref(returned), "value")
            return Recorded(children, scopes, attrs, returned=self.ref(returned))
        return Recorded(children, scopes, attrs, result=encode(returned))

    def _check_open(self, what: str) -> None:
        if self._concluded:
            raise NoDecider(
                f"{what} was called after {self.decider} had decided: a decider's threads and tasks "
                "must end before it returns"
            )


def _edges(edges: Edges) -> tuple[Edge, ...]:
    return tuple([Edge(promise, kind) for promise, kind in edges.items()])


def current(what: str) -> Recorder:
    """The recorder of the running decider; an error for code outside of one."""
    found = recorder.get()
    if not isinstance(found, Recorder):
        raise NoDecider(
            f"{what} is for deciders: call it in a function declared with @app.process, while a worker "
            "runs it; to run one without a database use mainspring.testing.decide(...)"
        )
    return found
