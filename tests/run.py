"""What `make test` runs: all tests but the long forms, side by side. A test that fails there fails."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

# Most tests wait more than they compute: for leases, polls, and the processes that they kill.
PARALLEL = ["-n", "4", "--dist", "worksteal"]


def main() -> None:
    # A shell starts what is in the background with SIGINT ignored, and so would be all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    subprocess.run([sys.executable, Path(__file__).parent / "console" / "browser.py"], check=False)
    command = [sys.executable, "-m", "pytest", "-m", "not slow", *PARALLEL, *sys.argv[1:]]
    raise SystemExit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
