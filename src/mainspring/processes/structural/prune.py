"""Pruning: a loop of tail calls keeps its newest steps, and costs the same for ever (P15).

A task is deleted when it is done, older (by the order of ends) than the newest thousand, and nothing
that remains needs it: no open promise of its own, no undo that may have to be done, no edge of any
kind from a task that stays. So a kept task keeps its inputs, and a restart can hand them out again.
"""

from __future__ import annotations

from mainspring.db.sql import Steps, run
from mainspring.processes.statements import SQL
from mainspring.processes.structural.change import Answer, Structural
from mainspring.processes.structural.compensation import Scopes, can_be_undone
from mainspring.processes.structural.cone import TaskGraph

KEEP = 1000


def prunable(
    graph: TaskGraph, root: str, scopes: Scopes, keep: int = KEEP
) -> tuple[list[str], int]:
    """What may go, and the horizon: the greatest number of an end that goes. Pure."""
    done = sorted(
        (n for n in graph.nodes.values() if n.state == "done" and n.done_no is not None),
        key=lambda n: n.done_no or 0,
        reverse=True,
    )
    # Promises that somebody still fulfils or has an edge on; of those that go, edges go with them.
    needed = {n.promise for n in graph.nodes.values() if n.state != "done"}
    needed.add(root)
    needed |= {s.opened_by for s in scopes.values() if s.state != "closed"}  # it makes their undo
    leaving: set[str] = set()
    horizon = 0
    kept_edges = {p: set(tasks) for p, tasks in graph.edges_on.items()}
    for node in done[keep:]:
        is_open = graph.nodes[node.id].outcome is None and node.promise == node.id
        if node.id in needed or is_open or (node.undo and can_be_undone(node.scope_id, scopes)):
            continue
        if kept_edges.get(node.id, set()) - leaving:
            continue
        leaving.add(node.id)
        horizon = max(horizon, node.done_no or 0)
    return sorted(leaving), horizon


class Pruning(Structural):
    """Deleting what nothing needs."""

    def prune(self, keep: int = KEEP) -> Steps[Answer]:
        locked = yield from self.lock()
        graph = yield from self.read()
        scopes = yield from self.read_scopes()
        tasks, horizon = prunable(graph, locked.root, scopes, keep)
        if tasks:
            yield from run(
                SQL["prune_tasks"], process_id=self.process_id, tasks=tasks, horizon=horizon
            )
        yield from self.unlock()
        return Answer(True, len(tasks))
