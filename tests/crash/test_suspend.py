"""A worker is suspended for three lease times and comes back: who is second changes nothing."""

from __future__ import annotations

import signal
import time
from datetime import timedelta

import pytest
from scene import LEASE, Scene, stop

_VISITS = "select key, version, due_at, attempt, pass from mainspring.visit order by key"
_STORY = "select run, worker_id, outcome, superseded, result from mainspring.history order by run"


@pytest.mark.parametrize("fence", ["exit", "cancel"])
def test_a_suspended_worker_is_overtaken_and_changes_nothing_after(
    scene: Scene, fence: str
) -> None:
    """Its late results meet keys that were enqueued anew: those must stay as they are."""
    task = scene.app.tasks["stubborn"]
    for n in range(6):
        call = task.options(key=f"k{n}")
        scene.handles.append(call.enqueue_sync(n=n, seconds=60, fails=n % 2 == 1))
    scene.enqueue("effect_in_thread", range(4), seconds=0.5)
    victim = scene.worker(fence=fence)
    scene.worker(gate="heir")
    scene.wait(lambda: len(scene.starts()) == 10, "all run")
    before = scene.worker_ids()

    victim.send(signal.SIGSTOP)
    stopped = time.monotonic()
    scene.open("heir")
    scene.wait(lambda: not scene.worker_ids() & before, "the suspended worker is declared dead")
    scene.check()
    later = timedelta(hours=1)
    for n in range(6):
        task.options(key=f"k{n}", delay=later).enqueue_sync(n=n, seconds=0)
    left = scene.sql(_VISITS), scene.sql(_STORY)
    scene.wait(lambda: time.monotonic() > stopped + 3 * LEASE, "three lease times are over")
    victim.send(signal.SIGCONT)

    if fence == "exit":
        assert victim.wait(60) == 1, "runs that cannot be stopped end the process"
    else:
        late = [scene.folder / f"late-{n}" for n in range(6)]
        scene.wait(lambda: all(path.exists() for path in late), "late results were handed in")
        scene.wait(lambda: len(scene.worker_ids()) == 2, "it is back under a new id")
        stop(victim)  # which ends when every result has been answered
    assert left == (scene.sql(_VISITS), scene.sql(_STORY))
    scene.sql("delete from mainspring.visit")
    scene.enqueue("quick", range(20))
    scene.check()
