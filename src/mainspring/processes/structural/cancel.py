"""Cancelling a process: what is live is called off, what was done is undone, and then it has ended.

One structural change calls everything off and makes the tasks that undo. From then on the process is
`cancelling`: open, with its result an error, until the last of these tasks has ended; whoever ends that
makes it cancelled. They are tasks like others: retried, recovered, parked for an operator.
"""

from __future__ import annotations

from mainspring.db.sql import Steps, run
from mainspring.processes.commit.change import TaskChange
from mainspring.processes.commit.close import told_parent
from mainspring.processes.commit.visits import delete_steps, find_places, queue_of
from mainspring.processes.commit.waiting import LOCK
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import Answer, Locked, Structural
from mainspring.processes.structural.compensation import (
    compensating,
    to_undo,
    under_way,
    undo_tasks,
)
from mainspring.processes.structural.cone import LIVE, TaskGraph, TaskNode
from mainspring.tasks.declare.promise import Failure

CANCELLED = "mainspring.errors.ProcessCancelled"
BEING_CANCELLED = (
    "the process is being cancelled and its compensations run; to give them up, cancel it with "
    "compensate=False (--no-compensate)"
)


class Cancelling(Structural):
    """The cancel of one process, and of its children by visits of theirs."""

    def cancel(self, *, compensate: bool = True, why: str = "cancelled") -> Steps[Answer]:
        """Call off what is live. What was done and can be undone is, unless told otherwise."""
        locked = yield from self.lock()
        refused = "" if locked.state == "open" else f"the process is {locked.state}"
        if locked.cancelling and compensate:
            refused = refused or BEING_CANCELLED
        if refused:
            yield from self.unlock()
            return Answer(False, why=refused)
        graph = TaskGraph((yield from self.read_tasks()), ())
        kept = compensating(graph) if compensate else set()
        live = [node for node in graph.live() if node.id not in kept]
        undone = (yield from self._find_undone(graph, live, kept)) if compensate else []
        stopped = yield from self._drop([node.id for node in live], graph)
        yield from self._write_ends(live, {n.promise for n in live}, Failure(CANCELLED, why))
        waiting = [n.id for n in graph.nodes.values() if n.actor == "@process" and n.id not in kept]
        yield from self._cancel_children(waiting, compensate=compensate)
        goes_on = bool(undone) or any(graph.nodes[id].state in LIVE for id in kept)
        if goes_on:  # the scopes are at their end: no look ends them again, no handler runs
            yield from run(SQL["undo_scopes"], process_id=self.process_id, kept=sorted(kept))
        if undone:
            yield from self._undo(locked, graph, undone)
        if any(node.actor == LOCK for node in graph.nodes.values()):
            yield from self._tell_locks()
        if goes_on:
            yield from self.unlock(root_closed=True, cancelling=True)
        else:
            yield from self.unlock("cancelled", root_closed=True)
            yield from self._tell(locked)
        return Answer(True, len(live), stopped, compensations=len(undone))

    def _find_undone(
        self, graph: TaskGraph, live: list[TaskNode], kept: set[str]
    ) -> Steps[list[TaskNode]]:
        """What was done and is not undone yet. What is handed out may have had its effect."""
        if not any(node.undo for node in graph.nodes.values()):
            return []
        scopes = yield from self.read_scopes()
        begun = [(queue_of(n.actor, self.engine), n.id) for n in live if n.undo]
        places = (yield from find_places(begun)) if begun else []
        return to_undo(graph, scopes, {place.key for place in places}, kept)

    def _undo(self, locked: Locked, graph: TaskGraph, undone: list[TaskNode]) -> Steps[None]:
        """Their tasks, after compensations that run already: those are of what was done later."""
        root = graph.nodes[locked.root]

        def maker(step: TaskNode) -> TaskNode:
            return graph.nodes.get(step.created_by or "", root)  # it may have been pruned

        tasks = undo_tasks(self.process_id, undone, maker, under_way(graph))
        change = TaskChange(self.process_id, maker(undone[0]).id, None, tasks=tasks)
        yield from self.end_tasks(locked, [change])

    def _tell(self, locked: Locked) -> Steps[None]:
        """It has ended: a parent that waits for it is told, and nobody looks at it any more."""
        told = told_parent(locked.parent_process, locked.parent_task, locked.parent_engine)
        if told is not None:
            yield from self._offer([told])
        look = [(self.process_id, self.engine, f"look/{self.process_id}")]
        yield from delete_steps(look, self._shard_count)
