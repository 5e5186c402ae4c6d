"""Login roles of a test: made for one database, gone with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import dict_row


class Roles:
    """Roles of a database that end with the block; names are the test's own, roles are the server's."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.owner = psycopg.connect(url, autocommit=True, row_factory=dict_row)
        self._suffix = self.value("select current_database()").rpartition("_")[2]
        self._made: list[str] = []

    def value(self, text: str, *values: Any) -> Any:
        row = self.owner.execute(text, values or None).fetchone()  # type: ignore[arg-type]
        assert row is not None
        return next(iter(row.values()))

    def run(self, text: str) -> None:
        """SQL of the owner; may be several statements."""
        self.owner.execute(text.encode())

    def name(self, role: str) -> str:
        return f"{role}_{self._suffix}"

    def make(self, role: str, grants: str = "") -> str:
        """A login; `grants` names it {role}."""
        name = self.name(role)
        self.run(f"create role {name} login")
        self._made.append(name)
        if grants:
            self.run(grants.replace("{role}", name))
        return name

    def address(self, role: str) -> str:
        return self.url.replace("postgres@", f"{self.name(role)}@", 1)

    @contextmanager
    def session(self, role: str) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(self.address(role), autocommit=True) as connection:
            yield connection

    def close(self) -> None:
        for name in self._made:
            self.run(f"drop owned by {name} cascade")
        for name in reversed(self._made):
            self.run(f"drop role {name}")
        self.owner.close()


@contextmanager
def roles(url: str) -> Iterator[Roles]:
    found = Roles(url)
    try:
        yield found
    finally:
        found.close()
