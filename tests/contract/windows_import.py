"""Import all of Mainspring with the standard library that Windows has; print what fails.

A program of its own: what Windows lacks is taken away here.
"""

import importlib
import os
import select
import signal
import socket
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
# What needs the real system while it is imported; then that is hidden.
OTHERS = (
    *("asyncio", "asyncpg", "confluent_kafka", "ctypes", "google.protobuf", "grpc", "h11"),
    *(
        "httpx",
        "hypothesis",
        "jinja2",
        "msgspec",
        "multiprocessing",
        "nats",
        "psycopg",
        "psycopg_pool",
    ),
    *("pytest", "rich.console", "sqlalchemy.ext.asyncio", "starlette.applications", "structlog"),
    *("typer", "uvicorn"),
)
MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "pty", "tty", "uvloop", "syslog")
NAMES = (
    (os, "register_at_fork fork getuid geteuid getgid getegid killpg setsid O_NOFOLLOW O_NONBLOCK "
         "O_CLOEXEC sched_getaffinity"),
    (signal, "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGQUIT SIGCHLD SIGALRM SIGSTOP SIGCONT pthread_kill"),
    (select, "poll epoll"),
    (socket, "AF_UNIX SO_REUSEPORT SCM_RIGHTS"),
)  # fmt: skip


def ours() -> list[str]:
    """All modules of ours, but for the embedded server and what only runs as a program."""
    found = []
    for package in ("mainspring", "mainspring_cli", "mainspring_pytest"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            parts = path.relative_to(SOURCE).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    apart = ("mainspring.embedded", "mainspring.db.schema.dump", "mainspring.__main__")
    return [name for name in found if not name.startswith(apart)]


def hide() -> None:
    """Be Windows, as far as an import can tell."""
    for name in OTHERS:
        importlib.import_module(name)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for owner, names in NAMES:
        for name in names.split():
            if hasattr(owner, name):
                delattr(owner, name)
    sys.platform = "win32"


if __name__ == "__main__":
    hide()
    assert not [name for name in sys.modules if name.startswith("mainspring")]
    for module in ours():
        try:
            importlib.import_module(module)
        except Exception as error:
            print(f"{module}: {type(error).__name__}: {error}")
    print(len(ours()), "modules")
