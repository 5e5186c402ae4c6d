"""Recovery: what a fault does to the rate, and that it comes back.

Two workers whose slots are all busy meet one fault after the other (`faults.py`); nobody restarts ours
but where the fault is their death. The figure is the rate after a fault in percent of the rate just
before it. Peers meet the two that every system has to live with: killed connections and a restart of
the server; those of their workers that end are started again, and the record says how many.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time

from benchmarks.catalog import SURVIVES
from benchmarks.stage import Failed
from benchmarks.targets import OURS
from benchmarks.workloads.faults import FAULTS, SHARED, SLOTS, Fault, Scene
from benchmarks.workloads.workload import Figure, Trial, Workload

WARM_SECONDS = 2.0
MEASURED_SECONDS = 3.0
BACK_SECONDS = 40.0
LEASE_SECONDS = 2.0
SETTLE_SECONDS = 1.5 * LEASE_SECONDS  # for shards to be shared anew
DISK_SECONDS = 180
APART = ("unshare", "--mount", "--propagation", "private")


def recovery(trial: Trial) -> list[Figure]:
    faults = FAULTS if trial.system.name == OURS else SHARED
    figures = endure(trial, faults)
    if trial.system.name == OURS:
        figures.append(full_disk())
    return figures


def endure(trial: Trial, faults: tuple[Fault, ...]) -> list[Figure]:
    """Each of these faults in turn; Failed with the figures so far when the system does not come back."""
    settings = {**trial.idle_settings, "slots": SLOTS, "reconnect": True, "lease": LEASE_SECONDS}
    figures: list[Figure] = []
    with trial.lab.stage(trial.system, settings) as stage:
        scene = Scene(trial, stage)
        scene.start()
        scene.feeder.begin()
        began = time.monotonic()
        scene.feeder.feed(WARM_SECONDS)
        rate = measure(scene)
        marks = []
        for fault in faults:
            struck, scene.restarts = time.monotonic(), 0
            marks.append((round(struck - began, 1), fault.name))
            try:
                fault.strike(scene)
                back = come_back(scene)
            except Failed as error:
                raise Failed(f"{fault.name}: {error}", figures) from error
            before, rate = rate, measure(scene)
            extra = {
                "before": round(before),
                "after": round(rate),
                "struck_seconds": round(back - struck, 1),
                "back_after_seconds": round(time.monotonic() - back - MEASURED_SECONDS, 1),
                "fault": fault.words,
                "note": ended(scene.restarts),
            }
            figures.append(Figure(f"recovery-{fault.name}", 100 * rate / before, "%", True, extra))
        figures[0].extra["series"] = scene.feeder.series(began, time.monotonic(), zero=began)
        figures[0].extra["marks"] = marks
    return figures


def come_back(scene: Scene) -> float:
    """Feed until jobs run again, and a little more; answers when the fault was over."""
    over = time.monotonic()
    done = scene.stage.look().count
    enough = done + scene.feeder.chunk
    scene.feeder.feed(BACK_SECONDS, until=lambda: scene.stage.look().count > enough)
    if scene.stage.look().count <= done:
        raise Failed(f"no job ran within {BACK_SECONDS:.0f} s after the fault")
    scene.feeder.feed(SETTLE_SECONDS)
    return over


def ended(restarts: int) -> str:
    return f"its workers ended and were started again ({restarts} in all)" if restarts else ""


def measure(scene: Scene) -> float:
    begin = time.monotonic()
    scene.feeder.feed(MEASURED_SECONDS)
    return scene.feeder.rate(begin, time.monotonic())


def full_disk() -> Figure:
    """The same on a server of its own, whose disk is a small tmpfs that only it can see."""
    if not shutil.which("unshare"):
        raise Failed("disk: not measured: there is no unshare to mount a small disk apart")
    command = [*APART, sys.executable, "-m", "benchmarks.disk"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            told, errors = process.communicate(timeout=DISK_SECONDS)
        finally:
            process.terminate()  # not killed: it has a server to take away
    if process.returncode:
        raise Failed(f"disk: {(errors.strip().splitlines() or ['no reason'])[-1][:300]}")
    return Figure(**json.loads(told.strip().splitlines()[-1]))


RECOVERY = Workload(
    "recovery",
    recovery,
    gives=(*(f"recovery-{fault.name}" for fault in FAULTS), "recovery-disk"),
    needs=SURVIVES,
    systems=("mainspring", "pgqueuer", "graphile"),
    peer_runs=1,
    most_seconds=600,
)
