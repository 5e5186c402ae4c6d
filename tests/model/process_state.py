"""What the model of the process protocol is made of: tasks, visits, runs, transactions in flight."""

from typing import NamedTuple

Edges = tuple[tuple[str, str], ...]  # (promise, kind: value, outcome, handle), in order
LIVE = ("open", "external", "parked")


class Child(NamedTuple):
    """A task that a decision makes. An edge names a sibling, or `given 0`: the first edge of the maker."""

    name: str
    edges: Edges = ()


class Make(NamedTuple):
    """A decision: children, and the one (or the given promise) that fulfils the maker's promise."""

    children: tuple[Child, ...]
    returned: str | None = None


Program = dict[
    str, Make | str
]  # by a task's name: a decision, "value", "fail", "signal" or "first_of"


class Task(NamedTuple):
    name: str
    promise: str
    edges: Edges = ()
    made_by: str | None = None
    maker_generation: int = 0
    state: str = "open"
    outcome: str | None = None  # of the promise with this id: ok, err
    value: object = None
    left: int = 0  # open inputs still waited for
    generation: int = 0
    done_no: int = 0
    given: tuple[object, ...] = ()  # ghost: what it was decided from

    @property
    def inputs(self) -> Edges:
        return tuple(edge for edge in self.edges if edge[1] != "handle")


class Visit(NamedTuple):
    task: str
    version: int
    holder: int | None = None  # the run that holds it
    recovered: int = 0  # ghost: runs before this token were overtaken


class Run(NamedTuple):
    """An attempt that was handed out; its answer may come late, twice, or never."""

    token: int
    task: str
    version: int
    generation: int
    given: tuple[object, ...]


class Delta(NamedTuple):
    """What a transaction has written and not committed. Its locks keep it true until then."""

    tasks: tuple[tuple[str, Task], ...] = ()  # new and changed rows
    counts: tuple[tuple[str, int], ...] = ()  # counted off
    stopped: frozenset[str] = frozenset()  # counted to nothing: an error, or the first of a race
    ready: tuple[str, ...] = ()
    asks: frozenset[str] = frozenset()
    root_closed: bool = False
    finished: bool = False


class Transaction(NamedTuple):
    """A decision commit in flight: begun (its locks are had), written, or committed and gone."""

    runs: tuple[Run, ...]
    locks: frozenset[str]
    saw_root_closed: bool
    saw_edges: tuple[tuple[str, str], ...] = ()  # only for who looks for edges too early
    saw_open: frozenset[str] = frozenset()  # the answer of the locking read
    delta: Delta | None = None


class Budget(NamedTuple):
    """What may still go wrong or be ordered."""

    timeouts: int = 0
    repeats: int = 0
    deaths: int = 0
    restarts: int = 0
    cancels: int = 0
    signals: int = 0
    prunes: int = 0
    batches: int = 0

    def less(self, name: str) -> "Budget":
        return self._replace(**{name: getattr(self, name) - 1})


class State(NamedTuple):
    tasks: tuple[tuple[str, Task], ...] = (("root", Task("root", "root")),)
    visits: tuple[Visit, ...] = (Visit("root", 1),)
    runs: tuple[Run, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    asks: frozenset[str] = frozenset()  # end, look, signal, await
    signals: int = 0  # sent and not taken
    pending: tuple[str, frozenset[str]] | None = None  # a restart whose cone was read, not written
    root_closed: bool = False
    finished: bool = False
    cancelled: bool = False
    horizon: int = 0
    token: int = 2
    number: int = 1
    budget: Budget = Budget()
    wrong: str | None = None

    @property
    def by_id(self) -> dict[str, Task]:
        return dict(self.tasks)

    def visit_of(self, task: str) -> Visit | None:
        return next((visit for visit in self.visits if visit.task == task), None)

    def with_tasks(self, tasks: dict[str, Task]) -> "State":
        return self._replace(tasks=tuple(sorted(tasks.items())))

    def without_visits(self, tasks: object) -> "State":
        kept = tuple(v for v in self.visits if v.task not in tasks)  # type: ignore[operator]
        return self._replace(visits=kept)

    def with_visits(self, tasks: object) -> "State":
        """Fresh visits with fresh tokens; a task that has one already is offered twice: wrong."""
        state = self
        for task in tasks:  # type: ignore[attr-defined]
            if state.visit_of(task) is not None:
                return state._replace(wrong=f"{task} is offered while it has a visit")
            visit = Visit(task, state.token)
            state = state._replace(
                visits=tuple(sorted((*state.visits, visit))), token=state.token + 1
            )
        return state

    def ask(self, *whats: str) -> "State":
        return self._replace(asks=self.asks | set(whats))
