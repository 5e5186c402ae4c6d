"""A worker is suspended for three lease times and comes back: who is second changes nothing."""

from __future__ import annotations

import signal
import time

import pytest
from scene import LEASE, Scene


@pytest.mark.parametrize("fence", ["exit", "cancel"])
def test_a_suspended_worker_is_overtaken_and_changes_nothing_after(
    scene: Scene, fence: str
) -> None:
    scene.enqueue("stubborn", range(6), seconds=60)
    scene.enqueue("effect_in_thread", range(4), seconds=0.5)
    victim = scene.worker(fence=fence)
    heir = scene.worker(gate="heir")
    scene.wait(lambda: len(scene.starts()) == 10, "all run")
    scene.joined(victim)
    before = scene.worker_ids()

    victim.send(signal.SIGSTOP)
    stopped = time.monotonic()
    scene.open("heir")
    scene.wait(lambda: not scene.worker_ids() & before, "the suspended worker is declared dead")
    scene.check()
    finished = scene.sql(
        "select run, worker_id, outcome, result from mainspring.history order by 1"
    )
    scene.wait(lambda: time.monotonic() > stopped + 3 * LEASE, "three lease times are over")
    victim.send(signal.SIGCONT)

    if fence == "exit":
        assert victim.wait(10) != 0, "a run that cannot be stopped ends the process"
    else:
        late = [scene.folder / f"late-{n}" for n in range(6)]
        scene.wait(lambda: all(path.exists() for path in late), "late results were handed in")
        scene.joined(victim, heir)
    again = scene.sql("select run, worker_id, outcome, result from mainspring.history order by 1")
    assert finished == again
    scene.enqueue("quick", range(20))
    scene.check()
