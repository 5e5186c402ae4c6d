"""Managed documents: JSON by the kind's model, kept in `mainspring.document`, with stages as on any table.

    drafts = app.documents("draft", model=Draft)
    await drafts.put("a1", Draft(title="..."))
    draft, version = await drafts.get("a1")
    await drafts.replace("a1", changed, version)      # False: somebody was faster

The same triggers watch the table as watch users' own, so plain SQL on it is seen too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeAlias

import msgspec

from mainspring.db.caller import Caller
from mainspring.db.tx import Tx
from mainspring.entities.kind import E, Kind
from mainspring.entities.outside.queue import asked
from mainspring.entities.statements import SQL
from mainspring.errors import InvalidArguments, InvalidSetting
from mainspring.shape import fault, shape


class Document(NamedTuple):
    """A row of get_document.sql."""

    body: str
    version: int


class Documents(Kind[E], Generic[E]):
    """A kind of managed documents."""

    async def put(self, id: object, value: E, *, on: Caller | None = None) -> int:
        """Create the document, or overwrite it whatever it is; returns its version.

        `on`: your own connection or session; the call is part of its transaction.
        """
        key, body = self.key_of(id), self._body(value)
        async with asked(self, on, "put", id=key) as tx:
            return await tx.one(SQL["put_document"], int, kind=self.name, id=key, body=body)

    async def get(self, id: object, *, on: Caller | None = None) -> tuple[E, int] | None:
        """The document and its version; None if there is none."""
        key = self.key_of(id)
        async with asked(self, on, "get", id=key) as tx:
            found = await tx.first(SQL["get_document"], Document, kind=self.name, id=key)
        return None if found is None else (self.model.decode_json(found.body), found.version)

    async def replace(
        self,
        id: object,
        value: E,
        version: int,
        *,
        on: Caller | None = None,
    ) -> bool:
        """Replace the document if it still has this version (0: create it if there is none)."""
        if isinstance(version, bool) or not isinstance(version, int) or version < 0:
            raise InvalidSetting(f"version must be one that get() answered, or 0, got {version!r}")
        values = {"kind": self.name, "id": self.key_of(id), "body": self._body(value)}
        async with asked(self, on, "replace", id=values["id"]) as tx:
            if version:
                made = await tx.first(SQL["replace_document"], int, version=version, **values)
            else:
                made = await tx.first(SQL["create_document"], int, **values)
        return made is not None

    async def delete(
        self,
        id: object,
        *,
        version: int | None = None,
        on: Caller | None = None,
    ) -> bool:
        """Delete the document, with `version` only if it still has that; whether it was there."""
        key = self.key_of(id)
        async with asked(self, on, "delete", id=key) as tx:
            gone = await tx.first(
                SQL["delete_document"], int, kind=self.name, id=key, version=version
            )
        return gone is not None

    def text_of(self, id: object, value: object) -> tuple[str, str]:
        """A document as it is stored: its key and its JSON. Refuses what cannot be one."""
        return self.key_of(id), self._body(value)

    async def write(self, tx: Tx, bodies: Mapping[str, str | None]) -> None:
        """Put documents, as `text_of` returns them, and delete those of which there is None."""
        puts = [(key, body) for key, body in bodies.items() if body is not None]
        if puts:
            await tx.run(
                SQL["put_documents"],
                kind=self.name,
                ids=[key for key, _ in puts],
                bodies=[body for _, body in puts],
            )
        if gone := [key for key, body in bodies.items() if body is None]:
            await tx.run(SQL["delete_documents"], kind=self.name, ids=gone)

    def _body(self, value: object) -> str:
        """The document as JSON; what could not be read again is not written."""
        try:
            text = msgspec.json.encode(self.encode(value)).decode()
            self.model.decode_json(text)
        except (TypeError, ValueError) as error:
            raise InvalidArguments(
                f"no document of kind {self.name!r}: {fault(error)}; got {shape(value)}"
            ) from error
        if "\\u0000" in text:
            raise InvalidArguments(
                f"a document of kind {self.name!r} has a NUL, which jsonb cannot hold"
            )
        return text


AnyDocuments: TypeAlias = Documents[Any]
