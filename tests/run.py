"""What `make test` runs: all tests side by side, then alone, once more, the few that failed there.

Real processes, short leases and two cores: now and then a neighbour's load decides a test. Such a test
is named at the end, to be mended; one that fails alone too, or more failures than a few, is an error.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

FEW = 5
FAILED = 1  # pytest's code for "some tests failed", as against its own errors
CACHE = Path(".pytest_cache/v/cache/lastfailed")
TIMED = ["tests/kernel", "tests/crash", "tests/db"]  # short leases: given more room
PARTS = [
    # Most tests wait more than they compute, so four at a time.
    ["-n", "4", "--dist", "worksteal", *(f"--ignore={path}" for path in TIMED)],
    ["-n", "2", "--dist", "worksteal", *TIMED],
]


def pytest(*arguments: str) -> int:
    command = [sys.executable, "-m", "pytest", "-m", "not slow", *arguments]
    return subprocess.run(command, check=False).returncode


def run(part: list[str]) -> list[str]:
    """Run a part of the tests; returns those that passed only alone. Exits if some do not pass."""
    code = pytest("--cache-clear", *part)
    if not code:
        return []
    failed = sorted(json.loads(CACHE.read_text())) if code == FAILED and CACHE.exists() else []
    if not 0 < len(failed) <= FEW:
        raise SystemExit(code)
    print(f"\n{len(failed)} failed beside others; once more, alone:", flush=True)
    if code := pytest(*failed):
        raise SystemExit(code)
    return failed


def main() -> None:
    # A shell starts what is in the background with SIGINT ignored, and so would be all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unsteady = [test for part in PARTS for test in run(part)]
    for test in unsteady:
        print(f"UNSTEADY {test}: failed beside others, passed alone; mend it")


if __name__ == "__main__":
    main()
