"""One process: whether a wakeup can be lost, a task decided twice, or a result be kept from old inputs.

Decisions are transactions of three steps: begin (locks, and what the locking reads answer), write
(what later statements see and write), commit. Two of them may be in flight at once, each blind to what
the other has written; their locks are the protocol's. Runs hang, die, answer late and twice.
The programs are fixed small graphs; the ghost `given` is what each task was decided from.
"""

from collections.abc import Iterator

from process_commits import DecisionCommits, without
from process_state import LIVE, Run, State, Transaction, Visit


class ProcessProtocol(DecisionCommits):
    """All steps that are possible in a state."""

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        if state.wrong is not None:
            return
        yield from self._workers(state)
        yield from self._decisions(state)
        yield from self._engine(state)
        yield from self._orders(state)

    # -- workers

    def _workers(self, s: State) -> Iterator[tuple[str, State]]:
        for visit in s.visits:
            task = s.by_id[visit.task]
            if task.state == "parked":
                continue
            if visit.holder is None and len(s.runs) < 3:
                given = self._given(s.by_id, task)
                run = Run(s.token, visit.task, visit.version, task.generation, given)
                held = tuple(v._replace(holder=run.token) if v is visit else v for v in s.visits)
                runs = (*s.runs, run)
                after = s._replace(visits=held, runs=runs, token=s.token + 1)
                yield f"{visit.task} is handed out", after
            elif visit.holder is not None and s.budget.timeouts:
                yield f"work timeout of {visit.task}", self._recover(s, visit)
        for run in s.runs:
            visit_now = s.visit_of(run.task)
            holds = visit_now is not None and visit_now.holder == run.token
            if s.budget.deaths and holds and visit_now is not None:
                lost = s._replace(
                    runs=without(s.runs, run), budget=s.budget.less("deaths")._replace(timeouts=1)
                )
                yield f"the run of {run.task} dies", self._recover(lost, visit_now)

    def _recover(self, s: State, visit: Visit) -> State:
        after = s._replace(budget=s.budget.less("timeouts"))
        freed = visit._replace(holder=None, recovered=s.token)
        if self._accept == "last" and self._rules.new_version_for_last:
            freed = freed._replace(version=s.token)
            after = after._replace(token=s.token + 1)
        return after._replace(visits=tuple(freed if v is visit else v for v in s.visits))

    # -- the engine's own visits

    def _engine(self, s: State) -> Iterator[tuple[str, State]]:
        free = not s.transactions
        if "end" in s.asks and (free or not self._rules.end_waits):
            yield "the end is looked for", self._finish(s._replace(asks=s.asks - {"end"}))
        if "look" in s.asks:
            looked = s._replace(asks=s.asks - {"look"})
            parked = [id for id, t in s.tasks if t.state == "parked" and self._is_caught(s, t)]
            if parked and free:
                yield "a look delivers an error", self._close(looked, parked[0], "err", None)
            elif not parked:
                yield "a look", self._finish(looked)
        for ask in ("await", "signal"):
            if ask in s.asks and free:
                looked = s._replace(asks=s.asks - {ask})
                waiting = [id for id, t in s.tasks if t.state == "external"]
                if waiting and s.signals:
                    taken = looked._replace(signals=s.signals - 1)
                    yield f"{ask}: taken", self._close(taken, waiting[0], "ok", "signal")
                else:
                    yield f"{ask}: nothing there", looked

    def _finish(self, s: State) -> State:
        closed = s.by_id["root"].outcome is not None
        live = any(task.state in LIVE for _, task in s.tasks)
        return s._replace(finished=s.finished or (closed and not live))

    def _close(self, s: State, id: str, outcome: str, value: object) -> State:
        """A change under the exclusive lock that ends one task and closes its promise."""
        tasks = s.by_id
        task = tasks[id]
        tasks[id] = task._replace(state="done", done_no=s.number)
        tasks[task.promise] = tasks[task.promise]._replace(outcome=outcome, value=value)
        nobody = Transaction((), frozenset(), s.root_closed)
        delta = self._release(s, tasks, {task.promise: outcome}, nobody, [], [])
        if not self._rules.look_for_edges_later:
            everyone = Transaction(
                (),
                frozenset(),
                s.root_closed,
                tuple((i, p) for i, t in s.tasks for p, _ in t.inputs),
            )
            delta = self._release(s, tasks, {task.promise: outcome}, everyone, [], [])
        after = s.with_tasks(tasks).without_visits({id})
        after = self._commit(after, nobody, delta)
        after = after._replace(root_closed=after.root_closed or task.promise == "root")
        return self._finish(after)

    # -- orders

    def _orders(self, s: State) -> Iterator[tuple[str, State]]:
        free = not s.transactions
        if s.budget.signals and not s.finished:
            sent = s._replace(signals=s.signals + 1, budget=s.budget.less("signals"))
            yield "a signal is sent", sent.ask("signal")
        if s.budget.cancels and free and not s.finished:
            yield "cancelled", self._cancel(s)
        if s.budget.prunes and free:
            yield "pruned", self._prune(s)
        if s.pending is not None:
            start, cone = s.pending
            yield (
                f"restart from {start}: written",
                self._restart(s._replace(pending=None), start, cone),
            )
        if s.budget.restarts and not s.cancelled and s.pending is None:
            spent = s._replace(budget=s.budget.less("restarts"))
            for id, task in s.tasks:
                if task.state in ("superseded", "cancelled") or 0 < task.done_no <= s.horizon:
                    continue
                cone = self._cone(s, id)
                if not self._rules.wait_for_decisions:
                    yield f"restart from {id}: read", spent._replace(pending=(id, cone))
                elif free:
                    yield f"restart from {id}", self._restart(spent, id, cone)

    def _cone(self, s: State, start: str) -> frozenset[str]:
        tasks = s.by_id
        found, todo = {start}, [start]
        while todo:
            member = todo.pop()
            promise = tasks[member].promise if self._rules.cone_by_promise else member
            for id, task in s.tasks:
                follows = task.made_by == member or promise in dict(task.inputs)
                if follows and id not in found and task.state != "superseded":
                    found.add(id)
                    todo.append(id)
        return frozenset(found)

    def _restart(self, s: State, start: str, cone: frozenset[str]) -> State:
        tasks = s.by_id
        superseded = {id for id in cone if id != start and tasks[id].made_by in cone}
        if not self._rules.supersede_children:
            superseded = set()
        reopened = {tasks[id].promise for id in cone if self._rules.reopen_inherited} | cone
        for id in reopened:
            tasks[id] = tasks[id]._replace(outcome=None, value=None)
        for id in superseded:
            tasks[id] = tasks[id]._replace(state="superseded", left=0)
        reset = sorted(cone - superseded)
        ready = []
        for id in reset:
            task = tasks[id]
            left = sum(tasks[p].outcome is None for p, _ in task.inputs)
            is_race = self._program[task.name] == "first_of"
            if self._stopped(tasks, task) or (is_race and left < len(task.inputs)):
                left = 0
            left = min(left, 1) if is_race else left
            tasks[id] = task._replace(
                state="open", generation=task.generation + 1, left=left, done_no=0, given=()
            )
            ready += [id] if left == 0 else []
        after = s.with_tasks(tasks)
        if self._rules.fresh_token_at_restart:
            after = after.without_visits(cone)
        else:
            after = after.without_visits(cone - set(ready))
            ready = [id for id in ready if after.visit_of(id) is None]
        closed = tasks["root"].outcome is not None
        after = after._replace(root_closed=closed, finished=False)
        return after.with_visits(ready).ask("look")

    def _cancel(self, s: State) -> State:
        tasks = s.by_id
        live = [id for id, task in s.tasks if task.state in LIVE]
        for id in live:
            promise = tasks[id].promise
            tasks[id] = tasks[id]._replace(state="cancelled", left=0)
            tasks[promise] = tasks[promise]._replace(outcome="err", value="cancelled")
        after = s.with_tasks(tasks).without_visits(live)
        return after._replace(cancelled=True, finished=True, budget=s.budget.less("cancels"))

    def _prune(self, s: State, keep: int = 1) -> State:
        tasks = s.by_id
        done = sorted((t.done_no, id) for id, t in s.tasks if t.state == "done")
        horizon = s.horizon
        for number, id in reversed(done[:-keep]):
            task = tasks[id]
            if id == "root" or (task.promise == id and task.outcome is None):
                continue
            if any(t.promise == id and t.state in LIVE for t in tasks.values()):
                continue
            if self._rules.keep_needed and any(id in dict(t.edges) for t in tasks.values()):
                continue
            del tasks[id]
            horizon = max(horizon, number)
        return s.with_tasks(tasks)._replace(horizon=horizon, budget=s.budget.less("prunes"))
