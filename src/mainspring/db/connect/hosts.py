"""The hosts of an address, and in which order and for how long each is tried.

A host that swallows packets must not keep us from the next: each has a time of its own. The one that
worked last comes first, for the whole process: after a failover one connection finds the new primary,
and all others go straight to it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from psycopg import conninfo

ONLY_SECONDS = 10.0  # for a host without alternative
EACH_SECONDS = 3.0  # for one of several

_worked_last: dict[str, ServerHost] = {}  # by address


@dataclass(frozen=True, slots=True)
class ServerHost:
    """One host of an address."""

    name: str  # for people
    url: str = field(repr=False)  # the address with this host alone
    patience: float  # seconds
    socket_in: Path | None = None  # the directory of its Unix socket


def to_try(url: str) -> list[ServerHost]:
    """The hosts of an address, the one that worked last first."""
    hosts = _hosts(url)
    last = _worked_last.get(url)
    return sorted(hosts, key=lambda host: host is not last)


def worked(url: str, host: ServerHost) -> None:
    """Begin with this one the next time."""
    _worked_last[url] = host


@lru_cache(maxsize=64)
def _hosts(url: str) -> tuple[ServerHost, ...]:
    parts = conninfo.conninfo_to_dict(url)
    # Of an address that leaves its hosts to a service file only libpq knows them.
    fallback = "" if "service" in parts else os.environ.get("PGHOST", "")
    names = str(parts.get("host") or parts.get("hostaddr") or fallback).split(",")
    patience = float(parts.get("connect_timeout") or 0)
    if len(names) == 1:
        only = ServerHost(
            _shown(names[0], parts), url, patience or ONLY_SECONDS, _directory(names[0])
        )
        return (only,)
    # An engine that writes has no use for a host that does not let it.
    parts.setdefault("target_session_attrs", "read-write")
    numbers = str(parts.get("port") or os.environ.get("PGPORT", "")).split(",")
    ports = numbers if len(numbers) > 1 else numbers * len(names)
    addresses = str(parts.get("hostaddr") or "").split(",")
    found = []
    for n, (name, port) in enumerate(zip(names, ports, strict=True)):
        one = {**parts, "host": name or None, "port": port or None}
        if len(addresses) == len(names):
            one["hostaddr"] = addresses[n] or None
        alone = conninfo.make_conninfo("", **one)
        found.append(
            ServerHost(_shown(name, one), alone, patience or EACH_SECONDS, _directory(name))
        )
    return tuple(found)


def _directory(name: str) -> Path | None:
    return Path(name) if name.startswith("/") else None


def _shown(name: str, parts: Mapping[str, object]) -> str:
    return f"{name or 'localhost'}:{parts.get('port') or 5432}"
