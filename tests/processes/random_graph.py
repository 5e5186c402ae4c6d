"""Random graphs and a pure model of what each comes to, whatever order things happen in.

A task is named by its path; what it does follows from the path and the seed alone. So the value of a
process is a function of its seed, and restarts, repeats, deaths and late answers must not change it.
"""

from __future__ import annotations

import json
import random
from typing import Any

from process_scene import call

from mainspring.processes.record.decision import ChildTask, Decision

Value = Any
ERROR = "planned"


def plan(seed: int, path: str, depth: int, given: int) -> tuple[str, Any]:
    """What the task at a path does: ('ok',), ('err',) or ('decide', children, returned)."""
    rng = random.Random(f"{seed}/{path}")
    if depth == 0 or path.endswith("w") or (depth < 4 and rng.random() < 0.15):
        return ("err", None) if rng.random() < 0.1 and path else ("ok", None)
    children = []
    for n in range(rng.randint(1, 4)):
        is_worker = rng.random() < 0.5
        edges: list[tuple[Any, str]] = []
        for ref in [*range(n), *(f"in{i}" for i in range(given))]:
            if rng.random() < 0.45:
                kinds = (
                    ["value", "outcome", "order"] if is_worker else ["value", "outcome", "handle"]
                )
                edges.append((ref, rng.choice(kinds)))
        children.append((f"{n}{'w' if is_worker else 'd'}", edges))
    returned: Any = rng.choice([None, *range(len(children)), *range(len(children))])
    if given and rng.random() < 0.15:
        returned = f"in{rng.randrange(given)}"
    return "decide", (children, returned)


def decide(seed: int, args: dict[str, Any], inputs: list[Any]) -> Decision:
    """The decision of the task that these arguments name. `inputs` are a task_input's."""
    path, depth = args["path"], args["depth"]
    what, more = plan(seed, path, depth, len(inputs))
    if what == "ok":
        seen = [_shown(i.kind, i.outcome, i.result and json.loads(i.result)) for i in inputs]
        return Decision(result=json.dumps([path, seen]))
    if what == "err":
        raise ValueError(ERROR)
    children, returned = more
    made: list[ChildTask] = []
    for name, edges in children:
        actor = "worker" if name.endswith("w") else "decider"
        links = [(_ref(ref, inputs), kind) for ref, kind in edges]
        strongest = _united(links)
        made.append(call(actor, *strongest, path=f"{path}/{name}", depth=depth - 1))
    if returned is None:
        return Decision(tuple(made), result=json.dumps([path, []]))
    return Decision(tuple(made), returned=_ref(returned, inputs))


def _united(links: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
    """One edge a promise, of the strongest kind: two inputs may be one promise."""
    order = ("value", "outcome", "order", "handle")
    found: dict[Any, str] = {}
    for ref, kind in links:
        found[ref] = min(found.get(ref, kind), kind, key=order.index)
    return list(found.items())


def _ref(ref: Any, inputs: list[Any]) -> Any:
    return inputs[int(ref[2:])].promise if isinstance(ref, str) else ref


def _shown(kind: str, outcome: str | None, value: Value) -> Any:
    return [kind, outcome, value] if kind in ("value", "outcome") else [kind]


class Model:
    """What a graph comes to, by plain recursion over its plan. Promises are objects with an outcome."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.failed: set[str] = set()  # paths that fail by plan
        self.tasks = 0

    def run(self, path: str, depth: int, inputs: list[tuple[str, Promise]]) -> Promise:
        """The promise that the task fulfils."""
        self.tasks += 1
        return Promise(self, path, depth, inputs)


class Promise:
    """Worked out when asked: no order is assumed."""

    def __init__(
        self, model: Model, path: str, depth: int, inputs: list[tuple[str, Promise]]
    ) -> None:
        self._model, self._path, self._depth, self._inputs = model, path, depth, inputs
        self._answer: tuple[str, Value] | None = None

    def answer(self) -> tuple[str, Value]:
        """Outcome and value."""
        if self._answer is None:
            self._answer = self._work_out()
        return self._answer

    def _work_out(self) -> tuple[str, Value]:
        for kind, promise in self._inputs:
            if kind in ("value", "order") and promise.answer()[0] == "err":
                return ("err", None)
        model = self._model
        what, more = plan(model.seed, self._path, self._depth, len(self._inputs))
        if what == "err":
            model.failed.add(self._path)
            return ("err", None)
        if what == "ok":
            seen = [
                _shown(k, *(p.answer() if k != "handle" else (None, None))) for k, p in self._inputs
            ]
            return ("ok", [self._path, seen])
        children, returned = more
        made: list[Promise] = []
        for name, edges in children:
            links: list[tuple[Promise, str]] = [
                (self._find(ref, made), kind) for ref, kind in edges
            ]
            united: dict[Promise, str] = dict(_united(links))
            inputs = [(kind, promise) for promise, kind in united.items()]
            made.append(model.run(f"{self._path}/{name}", self._depth - 1, inputs))
        if returned is None:
            return ("ok", [self._path, []])
        return self._find(returned, made).answer()

    def _find(self, ref: Any, made: list[Promise]) -> Promise:
        return self._inputs[int(ref[2:])][1] if isinstance(ref, str) else made[ref]


def expected(seed: int, depth: int = 4) -> tuple[str, Value]:
    """What a process of this seed comes to."""
    return Model(seed).run("", depth, []).answer()
