"""Decision commits of the process protocol, in three steps: begin, write, commit."""

from collections.abc import Iterator

from process_oracle import Oracle
from process_state import LIVE, Child, Delta, Make, Run, State, Task, Transaction, Visit


class DecisionCommits(Oracle):
    """The steps of decisions."""

    def _decisions(self, s: State) -> Iterator[tuple[str, State]]:
        for run in s.runs:
            gone = s._replace(runs=without(s.runs, run))
            yield from self._begin(gone, (run,), f"{run.task} answers")
            if s.budget.repeats:
                kept = s._replace(budget=s.budget.less("repeats"))
                yield from self._begin(kept, (run,), f"{run.task} answers, and will once more")
            for other in s.runs if s.budget.batches else ():
                if other.token > run.token and other.task != run.task:
                    both = gone._replace(
                        runs=without(gone.runs, other), budget=s.budget.less("batches")
                    )
                    yield from self._begin(
                        both, (run, other), f"{run.task} and {other.task} answer"
                    )
        for number, transaction in enumerate(s.transactions):
            rest = (*s.transactions[:number], *s.transactions[number + 1 :])
            names = " and ".join(run.task for run in transaction.runs)
            if transaction.delta is None:
                if any(transaction.locks & other.locks for other in rest):
                    continue
                delta = self._write(s, transaction)
                counted = {task for task, _ in delta.counts}
                if any(
                    counted & {t for t, _ in other.delta.counts} for other in rest if other.delta
                ):
                    continue  # a count is locked until its transaction ends
                written = transaction._replace(delta=delta)
                yield f"{names}: written", s._replace(transactions=(*rest, written))
            else:
                free = s._replace(transactions=rest)
                yield f"{names}: committed", self._commit(free, transaction, transaction.delta)

    def _begin(self, s: State, runs: tuple[Run, ...], label: str) -> Iterator[tuple[str, State]]:
        busy = {run.task for other in s.transactions for run in other.runs}
        counted = []
        for run in runs:
            if run.task in busy:
                return  # its visit is locked: sent again later
            visit = s.visit_of(run.task)
            if visit is None or s.finished or not self._is_settled(run, visit):
                continue
            counted.append(run)
        if not counted:
            yield f"{label}, and is refused", s
            return
        wrong = None
        for run in counted:
            visit = s.visit_of(run.task)
            assert visit is not None
            if self._accept == "last" and run.token < visit.recovered:
                wrong = f"{run.task} takes the result of an overtaken run"
        locks = frozenset(lock for run in counted for lock in self._locks(s, run))
        blocked = any(locks & other.locks for other in s.transactions)
        if blocked and self._rules.look_for_edges_later:
            return  # it waits, and has seen nothing yet
        saw_open = frozenset(id for id, task in s.tasks if task.outcome is None)
        edges = tuple((id, promise) for id, task in s.tasks for promise, _ in task.inputs)
        begun = Transaction(tuple(counted), locks, s.root_closed, edges, saw_open)
        yield label, s._replace(transactions=(*s.transactions, begun), wrong=wrong or s.wrong)

    def _is_settled(self, run: Run, visit: Visit) -> bool:
        if not self._rules.settle_by_token:
            return True
        if visit.version != run.version:
            return False
        return self._accept == "first" or visit.holder in (None, run.token)

    def _locks(self, s: State, run: Run) -> set[str]:
        task = s.by_id[run.task]
        locks = {run.task, task.promise}
        if self._rules.link_under_lock:
            action = self._program[task.name]
            if isinstance(action, Make):
                named = [ref for child in action.children for ref, kind in child.edges]
                named += [action.returned] if action.returned else []
                locks |= {_given(task, ref) for ref in named if ref.startswith("given")}
        return locks

    def _write(self, s: State, transaction: Transaction) -> Delta:
        """What later statements see: all that is committed by now, and nothing that is in flight."""
        tasks = dict(s.by_id)
        before = dict(tasks)
        asks: set[str] = set()
        closed: dict[str, str] = {}
        number = s.number
        made: list[str] = []
        makes: list[tuple[str, Make]] = []
        for run in transaction.runs:
            task = tasks[run.task]
            action = self._program[task.name]
            if any(
                o == "err" and k == "value"
                for (o, _), (_, k) in zip(run.given, task.inputs, strict=False)
            ):
                action = "pass the error"
            outcome, value = self._decide(action, run, task)
            if action == "signal" and not self._stopped(tasks, task):
                tasks[run.task] = task._replace(state="external", given=run.given)
                asks |= {"await"} if self._rules.both_sides_look else set()
                continue
            if action == "fail":
                caught, held = self._catching(tasks, task.promise)
                if not caught:
                    tasks[run.task] = task._replace(state="parked", given=run.given)
                    asks |= {"look"} if held and self._rules.look_at_parking else set()
                    continue
            number += 1
            tasks[run.task] = task._replace(state="done", given=run.given, done_no=number)
            if isinstance(action, Make):
                makes.append((run.task, action))
            if outcome is not None:
                closed[task.promise] = outcome
                owner = tasks[task.promise]
                tasks[task.promise] = owner._replace(outcome=outcome, value=value)
        # Counted as they were locked: what this batch closes is open still, and released after.
        ready: list[str] = []
        for maker, make in makes:
            self._insert(tasks, before, maker, make, transaction, made, ready, asks)
        delta = self._release(s, tasks, closed, transaction, made, ready)
        root_closed = "root" in closed
        finished = False
        if root_closed or (transaction.saw_root_closed and self._rules.remember_root):
            finished = not any(task.state in LIVE for task in tasks.values())
            if not finished:
                asks.add("end" if root_closed else "look")
        changed = tuple(sorted((id, t) for id, t in tasks.items() if before.get(id) != t))
        return delta._replace(
            tasks=changed, asks=frozenset(asks), root_closed=root_closed, finished=finished
        )

    def _decide(self, action: object, run: Run, task: Task) -> tuple[str | None, object]:
        if action in ("pass the error", "fail"):
            return "err", None
        if action == "pass on":
            return run.given[0]  # type: ignore[return-value]
        if isinstance(action, Make) and action.returned is not None:
            return None, None
        return "ok", (run.task, task.generation, run.given)

    def _insert(
        self,
        tasks: dict[str, Task],
        seen: dict[str, Task],
        maker: str,
        make: Make,
        transaction: Transaction,
        made: list[str],
        ready: list[str],
        asks: set[str],
    ) -> None:
        parent = tasks[maker]
        children = list(make.children)
        returned = make.returned
        if returned is not None and returned.startswith("given"):
            kind = "outcome"
            children.append(Child("pass on", ((returned, kind),)))
            returned = "pass on"
        ids = {child.name: _fresh(tasks, child.name) for child in children}
        promises = {name: parent.promise if name == returned else id for name, id in ids.items()}
        for child in children:
            edges = tuple(
                (_given(parent, ref) if ref.startswith("given") else promises[ref], kind)
                for ref, kind in child.edges
            )
            id = ids[child.name]
            tasks[id] = Task(child.name, promises[child.name], edges, maker, parent.generation)
            made.append(id)
            foreign = [_given(parent, ref) for ref, k in child.edges if ref.startswith("given")]
            if any(kind == "outcome" for _, kind in edges) and foreign:
                asks.add("look")
            left = 0
            for promise, _ in tasks[id].inputs:
                owner = seen.get(promise, tasks[promise])
                is_open = owner.outcome is None
                if promise in foreign and not self._rules.link_under_lock:
                    is_open = promise in transaction.saw_open
                left += is_open
            is_race = self._program[child.name] == "first_of"
            if is_race and left < len(tasks[id].inputs):
                left = 0
            is_stopped = any(
                seen.get(p, tasks[p]).outcome == "err" and kind == "value"
                for p, kind in tasks[id].inputs
            )
            if child.name == "pass on" and not self._rules.pass_on_closed:
                left = 1
            left = 0 if is_stopped else min(left, 1) if is_race else left
            tasks[id] = tasks[id]._replace(left=left)
            if left == 0:
                ready.append(id)

    def _release(
        self,
        s: State,
        tasks: dict[str, Task],
        closed: dict[str, str],
        transaction: Transaction,
        made: list[str],
        ready: list[str],
    ) -> Delta:
        """Count closed inputs off; a later statement than the lock sees every edge that came first."""
        counts: dict[str, int] = {}
        stopped: set[str] = set()
        for promise, outcome in closed.items():
            for id, task in tasks.items():
                kind = dict(task.inputs).get(promise)
                is_seen = (id, promise) in transaction.saw_edges or id in made
                if kind is None or not (self._rules.look_for_edges_later or is_seen):
                    continue
                if task.state != "open" or (id in made and not self._rules.insert_before_close):
                    continue
                counts[id] = counts.get(id, 0) + 1
                is_race = self._program[task.name] == "first_of"
                if is_race or (outcome == "err" and kind == "value"):
                    stopped.add(id)
        for id in [id for id in counts if id in made]:
            # Made in this very transaction: counted here and now.
            left = 0 if id in stopped else tasks[id].left - counts[id]
            if tasks[id].left > 0 >= left:
                ready.append(id)
            tasks[id] = tasks[id]._replace(left=left)
            del counts[id]
        return Delta(counts=tuple(counts.items()), stopped=frozenset(stopped), ready=tuple(ready))

    def _commit(self, s: State, transaction: Transaction, delta: Delta) -> State:
        tasks = s.by_id
        counts_before = {id: tasks[id].left for id, _ in delta.counts if id in tasks}
        for id, task in delta.tasks:
            if id in counts_before:
                task = task._replace(left=counts_before[id])
            tasks[id] = task
        ready = list(delta.ready)
        for id, count in delta.counts:
            was = tasks[id].left
            now = 0 if id in delta.stopped else was - count
            crossed = was > 0 >= now if self._rules.release_at_zero_once else now <= 0
            tasks[id] = tasks[id]._replace(left=now)
            if crossed:
                ready.append(id)
        number = s.number + 2
        wrong = s.wrong
        for run in transaction.runs:
            if tasks[run.task].generation != run.generation:
                wrong = f"{run.task} takes a decision of an earlier generation"
        after = s.with_tasks(tasks)._replace(
            root_closed=s.root_closed or delta.root_closed,
            finished=s.finished or delta.finished,
            asks=s.asks | delta.asks,
            number=number,
            wrong=wrong,
        )
        ended = {run.task for run in transaction.runs if tasks[run.task].state != "parked"}
        parked = {run.task for run in transaction.runs} - ended
        after = after.without_visits(ended)
        if parked:
            visits = tuple(
                Visit(v.task, v.version + 1_000) if v.task in parked else v for v in after.visits
            )
            after = after._replace(visits=visits)
        return after.with_visits(ready)


def without(runs: tuple[Run, ...], run: Run) -> tuple[Run, ...]:
    return tuple(other for other in runs if other is not run)


def _given(task: Task, ref: str) -> str:
    return task.edges[int(ref.removeprefix("given "))][0]


def _fresh(tasks: dict[str, Task], name: str) -> str:
    count = sum(task.name == name for task in tasks.values())
    return name if count == 0 else f"{name}'{count}"
