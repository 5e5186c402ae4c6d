"""The entry of the command line, apart from the package: Ctrl-C while that is imported is no error."""

from __future__ import annotations

import signal


def run() -> None:
    """Run a command. Until everything is imported Ctrl-C just ends the process."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mainspring.cli import main

    signal.signal(signal.SIGINT, before)
    main.run()
