"""The entry of the command line, apart from the package: Ctrl-C while that is imported is no error."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

BROUGHT = frozenset({"rich", "structlog", "typer"})  # by the extra mainspring[cli]


@contextmanager
def importing() -> Iterator[None]:
    """While something is imported Ctrl-C just ends the process; what is not installed is named."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in BROUGHT:
            raise
        raise SystemExit(
            f"mainspring: the command line is not installed ({error.name} is missing); "
            "install it with: pip install 'mainspring[cli]'"
        ) from None
    finally:
        signal.signal(signal.SIGINT, before)


def run() -> None:
    """Run a command."""
    with importing():
        from mainspring.cli import main

    main.run()
