"""A kind's settings and those of its crawls: what rooms need when a name and a source are enough. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from mainspring.entities.declare.table import DOCUMENT_TABLE, XMIN
from mainspring.errors import InvalidKind, InvalidSetting

if TYPE_CHECKING:
    from mainspring.entities.declare.dao import Dao
    from mainspring.entities.declare.ids import Codec

CAPTURES = ("statement", "row", "always", "call")
_LEAST_KEPT, _MOST_KEPT = timedelta(hours=1), timedelta(days=3660)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")


@dataclass(frozen=True, slots=True)
class Crawl:
    """How the crawls of a kind behave.

    `every`: how often the whole base is gone through; None: on command only. `rate`: entities a
    second; None: as fast as they are processed. `share`: of a worker's slots at most, and of its
    starts at least. `pause_if_lag`: no step while live visits have been due for longer (seconds).
    """

    every: timedelta | None = None
    rate: float | None = None
    share: float = 0.25
    pause_if_lag: float = 5.0

    def __post_init__(self) -> None:
        if self.every is not None and (
            not isinstance(self.every, timedelta) or self.every < timedelta(seconds=1)
        ):
            raise InvalidSetting(
                f"every must be a timedelta of a second or more, got {self.every!r}"
            )
        check_rate(self.rate)
        check_between("share", self.share, 0.001, 1)
        check_between("pause_if_lag", self.pause_if_lag, 0.1, 86_400)


class DocumentOptions(TypedDict, total=False):
    """What `app.documents(...)` may be given beside a model, for checkers."""

    id: Codec[Any] | None
    pool: str | None
    serial: bool
    jitter: float
    notify: bool
    crawl: Crawl | None
    keep_events: timedelta | None


class EntityOptions(DocumentOptions, total=False):
    """What `app.entities(...)` may be given beside a model, for checkers."""

    table: str | None
    dao: Dao | None
    key: str | Iterable[str]
    version: str
    ignore: Iterable[str]
    capture: str | None


def check_rate(rate: float | None) -> None:
    """Refuse a rate of a crawl that makes no sense."""
    if rate is not None:
        check_between("rate", rate, 0.001, 1_000_000)


def check_between(name: str, value: float, least: float, most: float) -> None:
    """Refuse a number of a crawl that is out of its bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidSetting(f"{name} of a crawl must be {least} to {most}, got {value!r}")


@dataclass(frozen=True, slots=True)
class KindSettings:
    """A kind as it is declared."""

    name: str
    source: str  # schema.table, 'document' or 'dao'
    keys: tuple[str, ...] = ("id",)
    version: str = "version"  # a column, or 'xmin'
    ignore: tuple[str, ...] = ()  # columns whose changes offer nothing
    capture: str = "statement"
    pool: str = "default"
    serial: bool = True  # of one entity, one stage at a time
    jitter: float = 0.0  # seconds; spreads the stages of a kind that is not serial
    notify: bool = True  # writers wake sleeping workers
    crawl: Crawl = field(default_factory=Crawl)
    keep_events: timedelta | None = None  # for so long they can be replayed; None: not at all

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InvalidKind(
                f"a kind's name must begin with a letter and have at most 40 letters, digits, "
                f"'_', '.' and '-', got {self.name!r}"
            )
        if self.capture not in CAPTURES:
            raise InvalidKind(
                f"kind {self.name!r}: capture must be one of {', '.join(CAPTURES)}, "
                f"got {self.capture!r}"
            )
        if not self.keys:
            raise InvalidKind(
                f"kind {self.name!r} needs a key: key='id' or key=['region', 'number']"
            )
        if len(set(self.keys)) != len(self.keys):
            raise InvalidKind(f"kind {self.name!r}: a key column is named twice: {self.keys!r}")
        if self.version in self.keys:
            raise InvalidKind(f"kind {self.name!r}: {self.version!r} cannot be key and version")
        if isinstance(self.jitter, bool) or not 0 <= self.jitter <= 3600:
            raise InvalidKind(
                f"kind {self.name!r}: jitter must be 0 to 3600 seconds, got {self.jitter!r}"
            )
        if self.jitter and self.serial:
            raise InvalidKind(
                f"kind {self.name!r}: jitter is for kinds whose stages run in parallel; "
                "say serial=False, or leave it out"
            )
        if not isinstance(self.crawl, Crawl):
            raise InvalidKind(
                f"kind {self.name!r}: crawl must be Crawl(every=...), got {self.crawl!r}"
            )
        keep = self.keep_events
        if keep is not None and (
            not isinstance(keep, timedelta) or not _LEAST_KEPT <= keep <= _MOST_KEPT
        ):
            raise InvalidKind(
                f"kind {self.name!r}: keep_events must be a timedelta of an hour to ten years, got {keep!r}"
            )
        if not self.pool:
            raise InvalidKind(f"kind {self.name!r}: pool must have a name, got ''")

    @property
    def crawl_every(self) -> timedelta | None:
        """How often the whole base is crawled."""
        return self.crawl.every

    @property
    def has_version(self) -> bool:
        """Whether versions are stored; with 'xmin' they only live for one visit."""
        return self.version != XMIN

    @property
    def is_document(self) -> bool:
        """Whether the entities are managed documents."""
        return self.source == "document"

    @property
    def table(self) -> str | None:
        """The table whose rows are the entities; None for a DAO."""
        if self.source == "document":
            return DOCUMENT_TABLE
        return None if self.source == "dao" else self.source
