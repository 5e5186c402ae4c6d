"""Connecting: the hosts of an address are tried one after the other, until one lets us in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote

import asyncpg
import psycopg
from psycopg import conninfo

from mainspring.db.connect.address import shown
from mainspring.db.connect.hosts import ServerHost, to_try, worked
from mainspring.errors import EmbeddedServerError, NotDone

_REFUSALS = (
    *(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError),
    asyncpg.TargetServerAttributeNotMatched,
)

# Too many connections; shutting down, crashed, starting up.
_NOT_NOW = ("53300", "57P01", "57P02", "57P03")


class Tries:
    """The hosts of an address, one after the other, until one lets us in; else the error that says why
    none did."""

    def __init__(self, url: str, timeout: float | None, owner: int | None) -> None:
        self._url = url
        self._timeout = timeout
        self._owner = owner
        self._failed: list[tuple[ServerHost, Exception]] = []

    def __iter__(self) -> Iterator[tuple[ServerHost, float]]:
        for host in to_try(self._url):
            try:
                if host.socket_in is not None:
                    from mainspring.embedded import private  # which Windows has none of

                    private.refuse_impostor(host.socket_in, self._owner)
            except EmbeddedServerError as error:
                self._failed.append((host, error))
            else:
                yield host, self._timeout or host.patience
        raise _unreachable(self._url, self._failed) from self._failed[-1][1]

    @contextmanager
    def at(self, host: ServerHost) -> Iterator[None]:
        """Whatever one host says, another may say something else."""
        try:
            yield
        except (*_REFUSALS, psycopg.Error) as error:
            self._failed.append((host, error))
        else:
            worked(self._url, host)


def _unreachable(url: str, failed: list[tuple[ServerHost, Exception]]) -> NotDone:
    if len(failed) == 1:
        reasons = _reason(failed[0][1])
    else:
        reasons = "; ".join(f"{host.name}: {_reason(error)}" for host, error in failed)
    found = NotDone(
        f"cannot connect to PostgreSQL at {shown(url)}: {reasons}; {_advice(url, failed)}"
    )
    found.passes = any(_passes(error) for _, error in failed)
    return found


def _advice(url: str, failed: list[tuple[ServerHost, Exception]]) -> str:
    """What to do where every host says the same, else the usual question."""
    states = {getattr(error, "sqlstate", None) or "" for _, error in failed}
    if len(states) == 1 and (state := states.pop()):
        if state.startswith("28"):
            return "the server is up: see the user and the password of the address, and its pg_hba.conf"
        if state == "3D000":
            name = conninfo.conninfo_to_dict(url).get("dbname", "")
            return (
                f"the server is up: see the address, or make the database (createdb {quote(str(name))}) "
                "and run mainspring migrate"
            )
        if state in _NOT_NOW:
            return "it takes nobody just now: wait, or see how many connections it allows"
    return "is the server up and the address right?"


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _passes(error: Exception) -> bool:
    """Whether a server is there and says that it cannot take us just now: too many are there, it starts,
    it ends, or it is still a standby."""
    state = getattr(error, "sqlstate", None) or ""
    return state in _NOT_NOW or isinstance(error, asyncpg.TargetServerAttributeNotMatched)
