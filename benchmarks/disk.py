"""A full disk under the database: `python -m benchmarks.disk`, run where mounts are private.

The lab of this run lies on a small tmpfs, which a file then fills to the last byte. The server may
stop for want of room for its log; when there is room again it is started, and the rate is measured
as after any fault. Prints the figure as JSON.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.catalog import BY_NAME, tuned
from benchmarks.lab import Lab
from benchmarks.stage import Failed
from benchmarks.workloads.faults import Fault, Scene
from benchmarks.workloads.recovery import endure
from benchmarks.workloads.workload import Trial

DISK_MB = 6_000
FULL_SECONDS = 5.0


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # and the lab takes its server away
    with tempfile.TemporaryDirectory(prefix="full-disk-") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=755", "tmpfs", folder]
        subprocess.run(mount, check=True)
        tempfile.tempdir = folder

        def full_disk(scene: Scene) -> None:
            filler = Path(folder) / "filler"
            scene.feeder.settle()
            fill(filler)
            scene.feeder.wait(FULL_SECONDS)
            filler.unlink()
            scene.trial.lab.revive()
            scene.renew()

        try:
            with Lab() as lab:
                system = BY_NAME["mainspring"]
                trial = Trial(lab, system, tuned(system), quick=True)
                fault = Fault("disk", f"no room on the disk for {FULL_SECONDS:.0f} s", full_disk)
                figure = endure(trial, (fault,))[0]
        except Failed as error:
            sys.exit(str(error))
        finally:
            subprocess.run(["umount", "--lazy", folder], check=False)
    print(json.dumps(asdict(figure)))


def fill(filler: Path) -> None:
    for size in (1 << 20, 1 << 12, 1):
        with filler.open("ab", buffering=0) as file:
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


if __name__ == "__main__":
    main()
