"""An address of a database: checked, shown to people, and in the form that each driver reads."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg import conninfo

from mainspring.db.connect import hosts, keepalive
from mainspring.db.connect.options import check_options, packed
from mainspring.db.connect.settings import OURS
from mainspring.errors import InvalidUrl

_DRIVER = re.compile(r"postgres(ql)?\+\w+://")
LEAST_SECONDS = 2  # psycopg gives no host less to connect
# What asyncpg understands in a URL besides the address.
_KEPT = (
    *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile", "krbsrvname"),
    "target_session_attrs",  # of several hosts, the one that can be written to
)


def psycopg_arguments(url: str, seconds: float, startup: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of a psycopg connection: of the address's own only the settings are not let through,
    which are among ours."""
    arguments: dict[str, Any] = {**keepalive.LIBPQ, **conninfo.conninfo_to_dict(url)}
    arguments["connect_timeout"] = max(LEAST_SECONDS, int(seconds))
    if "application_name" in startup:
        arguments["application_name"] = startup["application_name"]
    rest = {name: value for name, value in startup.items() if name != "application_name"}
    arguments["options"] = packed(rest) if rest else None
    return arguments


def knock(url: str, seconds: float) -> None:
    """Find out whether a host answers at all, sooner than psycopg would."""
    parts = conninfo.conninfo_to_dict(url)
    host = str(parts.get("hostaddr") or parts.get("host") or "")
    if host and not host.startswith(("/", "@")):
        socket.create_connection((host, int(parts.get("port") or 5432)), seconds).close()


def check_url(url: str) -> str:
    """The address, if it can be one. What cannot be read is not shown: it may hold a password."""
    if not isinstance(url, str):
        raise InvalidUrl(
            f"the database address must be a text such as postgresql://user@host/database, got a "
            f"{type(url).__name__}"
        )
    try:
        parts = conninfo.conninfo_to_dict(url)
        ports = [int(port) for port in str(parts.get("port", "5432")).split(",") if port]
        hosts.to_try(url)
    except (psycopg.Error, ValueError):
        ports = []
        parts = {"unreadable": True}
    if not parts:
        raise InvalidUrl("the database address is empty; write postgresql://user@host/database")
    if "unreadable" in parts or not all(0 < port < 65536 for port in ports):
        if driver := _DRIVER.match(url):
            raise InvalidUrl(
                f"the database address begins with {driver[0]!r}, as SQLAlchemy writes it; leave out "
                f"the driver: postgresql://..."
            )
        raise InvalidUrl(
            "cannot read the database address (not shown here, it may hold a password); "
            "write it as postgresql://user:password@host:5432/database"
        )
    check_options(url, OURS)
    return url


def asyncpg_url(url: str) -> str:
    """The same address in the form that asyncpg reads (it knows fewer parameters than libpq)."""
    parts = conninfo.conninfo_to_dict(url)
    user = quote(str(parts["user"]), safe="") if "user" in parts else ""
    if "password" in parts:
        user += ":" + quote(str(parts["password"]), safe="")
    query = {name: str(parts[name]) for name in _KEPT if name in parts}
    if "host" in parts:
        query["host"] = str(parts["host"])
    if "port" in parts:
        query["port"] = str(parts["port"])
    database = quote(str(parts.get("dbname", "")), safe="")
    return f"postgresql://{user}{'@' if user else ''}/{database}?{urlencode(query)}"


def shown(url: str) -> str:
    """Where an address leads, without the password that it may hold anywhere."""
    parts = conninfo.conninfo_to_dict(url)
    where = f"{parts.get('host') or 'localhost'}:{parts.get('port') or 5432}"
    return f"{where}, database {parts.get('dbname') or 'of the user'}"
