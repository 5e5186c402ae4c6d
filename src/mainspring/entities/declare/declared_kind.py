"""A kind as the rooms know it: what was declared of it. Pure; what one does with a kind is `kind.py`."""

from __future__ import annotations

from typing import Any, Protocol

from mainspring.db.database import Database
from mainspring.db.pool import AsyncPool, SyncPool
from mainspring.entities.declare.consumer import Consumer, consumers
from mainspring.entities.declare.dao import Dao
from mainspring.entities.declare.ids import Codec, id_text, typed_id
from mainspring.entities.declare.kind_settings import KindSettings
from mainspring.entities.declare.model import Model
from mainspring.entities.declare.stage import Stage
from mainspring.errors import InvalidKind


class KindHost(Protocol):
    """What a kind needs of the application."""

    async def database(self) -> Database: ...
    async def pool(self) -> AsyncPool: ...
    def sync_pool(self) -> SyncPool: ...


class DeclaredKind:
    """A kind's source, key, version and model, with its stages and sinks."""

    def __init__(
        self,
        host: KindHost,
        settings: KindSettings,
        *,
        model: type[object] | None = None,
        dao: Dao | None = None,
        codec: Codec[Any] | None = None,
    ) -> None:
        if codec is not None and not isinstance(codec, Codec):
            raise InvalidKind(
                f"kind {settings.name!r}: id must be a Codec(to_text, from_text), got {codec!r}"
            )
        self.codec = codec
        self.host = host
        self.settings = settings
        self.name = settings.name  # which is the queue of its system visits
        self.keys = settings.keys  # the key columns, in the order of an id
        self.version = settings.version  # the version column, or 'xmin'
        self.ignore = settings.ignore  # fields whose changes offer nothing
        self.is_serial = (
            settings.serial
        )  # the stages of an entity take turns, unless they say otherwise
        self.is_document = settings.is_document
        self.has_version = settings.has_version
        self.model = Model(settings.name, model)
        self.dao = dao
        self.stages: dict[str, Stage] = {}
        self.sinks: dict[str, Consumer] = {}
        if self.model.fields is not None and settings.source != "document":
            for key in settings.keys:
                if key not in self.model.fields:
                    raise InvalidKind(
                        f"kind {settings.name!r}: model {self.model.type.__name__} has no field "
                        f"{key!r}, which is the key"
                    )

    def __repr__(self) -> str:
        return f"<kind {self.name} on {self.settings.source} with {len(self.stages)} stages>"

    @property
    def has_table(self) -> bool:
        """Whether the entities are rows of the user's own table."""
        return not self.is_document and self.dao is None

    # -- ids and entities

    def key_of(self, id: object) -> str:
        """The text of an id, not yet through its column's type: `keys.canonical` does that."""
        return id_text(id if self.codec is None else self.codec.text(self.name, id), self.keys)

    def id_from(self, key: str) -> object:
        """The id of a visit's key, by its type."""
        return typed_id(self, key)

    def id_of(self, entity: object) -> str:
        """The text of an entity's id."""
        if isinstance(entity, dict):
            values = [entity.get(name) for name in self.keys]
        else:
            values = [getattr(entity, name, None) for name in self.keys]
        return id_text(tuple(values), self.keys)

    def decode(self, row: dict[str, object]) -> object:
        """A row of plain JSON values as the kind's model."""
        return self.model.decode(row)

    def encode(self, entity: object) -> dict[str, object]:
        """All fields of an entity as plain JSON values."""
        return self.model.encode(entity)

    @property
    def consumers(self) -> list[Consumer]:
        """The `saved` hooks of its stages, and its sinks."""
        return consumers(self.stages.values(), self.sinks.values())
