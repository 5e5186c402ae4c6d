"""Managed documents: JSON by the kind's model, kept in `mainspring.document`, with stages as on any table.

    drafts = app.documents("draft", model=Draft)
    await drafts.put("a1", Draft(title="..."))
    draft, version = await drafts.get("a1")
    await drafts.replace("a1", changed, version)      # False: somebody was faster

The same triggers watch the table as watch users' own, so plain SQL on it is seen too.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.entities.capture.announce import Connection
from mainspring.entities.kind import Kind
from mainspring.entities.outside.queue import call
from mainspring.errors import InvalidArguments, InvalidSetting
from mainspring.shape import fault, shape


class Documents(Kind):
    """A kind of managed documents."""

    async def put(self, id: Any, value: Any, *, connection: Connection | None = None) -> int:
        """Create the document, or overwrite it whatever it is; answers its version.

        `connection`: your own (psycopg or asyncpg); the call is part of its transaction.
        """
        rows = await self._call("put_document", connection, id=id, body=self._body(value))
        return int(rows[0][0])

    async def get(self, id: Any, *, connection: Connection | None = None) -> tuple[Any, int] | None:
        """The document and its version; None if there is none."""
        rows = await self._call("get_document", connection, id=id)
        if not rows:
            return None
        body, version = rows[0]
        return (self.model.decode_json(body), version)

    async def replace(
        self, id: Any, value: Any, version: int, *, connection: Connection | None = None
    ) -> bool:
        """Replace the document if it still has this version (0: create it if there is none)."""
        if isinstance(version, bool) or not isinstance(version, int) or version < 0:
            raise InvalidSetting(f"version must be one that get() answered, or 0, got {version!r}")
        name = "replace_document" if version else "create_document"
        body = self._body(value)
        return bool(await self._call(name, connection, id=id, body=body, version=version))

    async def delete(
        self, id: Any, *, version: int | None = None, connection: Connection | None = None
    ) -> bool:
        """Delete the document, with `version` only if it still has that; whether it was there."""
        return bool(await self._call("delete_document", connection, id=id, version=version))

    async def _call(self, name: str, connection: Connection | None, **values: Any) -> list[Any]:
        values["id"] = self.key_of(values["id"])
        return await call(self, name, connection, **values)

    def _body(self, value: Any) -> str:
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
