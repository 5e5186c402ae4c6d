"""What is said where the packages of an extra are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mainspring.errors import MissingExtra

BROUGHT = frozenset(
    {"grpc", "grpc_health", "google", "h11", "jinja2", "markupsafe", "starlette", "uvicorn"}
)


@contextmanager
def needing_serve() -> Iterator[None]:
    """Around imports of the server: a package that is not installed is told with its extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in BROUGHT:
            raise
        raise MissingExtra("the server", error.name, "serve") from None
