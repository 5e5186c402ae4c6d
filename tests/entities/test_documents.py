"""Managed documents: kept by us, watched as a user's table is (S26)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import psycopg
import pytest

from mainspring import Update
from mainspring.entities.documents import Documents
from mainspring.errors import InvalidArguments, InvalidKey, InvalidSetting
from offered import offered
from stages import Stages


@dataclass
class Draft:
    title: str
    words: int = 0


@pytest.fixture
async def drafts(stages: Stages) -> Documents:
    kind = stages.app.documents("draft", model=Draft)
    await stages.install()
    return kind


async def test_documents_are_put_read_replaced_and_deleted(
    stages: Stages, drafts: Documents
) -> None:
    """S26: works on managed JSON documents."""
    assert await drafts.get("a") is None
    assert await drafts.put("a", Draft("one")) == 1
    assert await drafts.get("a") == (Draft("one"), 1)
    assert offered(stages, "draft") == {"a": {"new": 1, "out": 1, "v": 1}}

    assert await drafts.put("a", Draft("two")) == 2
    assert not await drafts.replace("a", Draft("three"), 1)
    assert await drafts.replace("a", Draft("two", 9), 2)
    assert not await drafts.replace("a", Draft("new"), 0)
    assert await drafts.replace("b", Draft("new"), 0)
    assert offered(stages, "draft") == {
        "a": {"f:title": 1, "f:words": 1, "out": 1, "v": 3},
        "b": {"new": 1, "out": 1, "v": 1},
    }
    assert not await drafts.delete("a", version=1)
    assert await drafts.delete("a")
    assert not await drafts.delete("a")


async def test_plain_sql_on_documents_is_seen_by_kind(stages: Stages, drafts: Documents) -> None:
    """S21: by whatever code."""
    stages.query(
        'insert into mainspring.document (kind, key, body) select k, n::text, \'{"n": 1.0, "x": null}\' '
        "from generate_series(1, 30) n, unnest(array['draft', 'other']) k"
    )
    assert len(offered(stages, "draft")) == len(offered(stages, "other")) == 30

    stages.query("update mainspring.document set body = body || '{\"n\": 1.00}' where key < '2'")
    stages.query(
        "update mainspring.document set body = body - 'x' where kind = 'draft' and key = '9'"
    )
    stages.query("update mainspring.document set body = body")

    assert set(offered(stages, "other")) == {"1", *(str(n) for n in range(10, 20))}
    found = offered(stages, "draft")
    assert found["1"] == {"f:n": 1, "out": 1, "v": 2}
    assert found["9"] == {"f:x": 1, "out": 1, "v": 2}


async def test_deleted_documents_end_with_their_states(stages: Stages, drafts: Documents) -> None:
    """S21: a delete ends visits and state, and consumers are told."""
    for id in "abc":
        await drafts.put(id, Draft(id))
    stages.query(
        "insert into mainspring.state (shard, kind, key, stage, body) select mainspring.shard(k, 1024), "
        "'draft', k, 's', '{}' from unnest(array['a', 'b', 'c']) k"
    )
    stages.query("insert into mainspring.consumer (kind, name) values ('draft', 'log')")

    await drafts.delete("a")
    stages.query("update mainspring.document set key = 'z' where key = 'b'")
    stages.query("truncate mainspring.document")

    assert stages.query("select key from mainspring.state") == []
    assert set(offered(stages, "draft")) == set()
    rows = stages.query("select key, entity_version, body from mainspring.event order by number")
    assert [(r["key"], r["entity_version"]) for r in rows] == [
        ("a", 1),
        ("b", 1),
        ("c", 1),
        ("z", 2),
    ]
    assert rows[0]["body"] == {"entity": {"title": "a", "words": 0}}


async def test_a_document_can_be_written_in_ones_own_transaction(
    stages: Stages, drafts: Documents
) -> None:
    async with await psycopg.AsyncConnection.connect(stages.url) as own:
        await drafts.put("a", Draft("mine"), on=own)
        assert await drafts.get("a") is None
        await own.rollback()

    assert await drafts.get("a") is None


async def test_what_is_no_document_is_refused(stages: Stages, drafts: Documents) -> None:
    with pytest.raises(InvalidArguments, match="no document of kind 'draft'"):
        await drafts.put("a", {"words": "many"})
    with pytest.raises(InvalidArguments, match="NUL"):
        await drafts.put("a", Draft("\x00"))
    with pytest.raises(InvalidKey, match="must not be empty"):
        await drafts.put("", Draft("x"))
    with pytest.raises(InvalidSetting, match="version must be one that get"):
        await drafts.replace("a", Draft("x"), -1)
    with pytest.raises(psycopg.errors.CheckViolation):
        stages.query(
            "insert into mainspring.document (kind, key, body) values ('draft', 'a', '[]')"
        )


async def test_a_stage_on_documents_saves_them(stages: Stages, drafts: Documents) -> None:
    """S26: the same visit on documents as on tables."""

    @drafts.stage(reads=["title"], writes=["words"])
    async def count(draft: Draft) -> Update:
        return Update(words=len(draft.title.split()))

    await drafts.put("a", Draft("three small words"))

    await stages.run()

    assert await drafts.get("a") == (Draft("three small words", 3), 2)
    assert stages.queues("a") == []


class Note(msgspec.Struct):
    title: str
    words: int = 7
    tags: list[str] = msgspec.field(default_factory=lambda: ["none"])


@dataclass
class Paper:
    title: str
    words: int = 7
    tags: list[str] = field(default_factory=lambda: ["none"])


@pytest.mark.parametrize("model", [Note, Paper])
async def test_a_stage_that_declares_its_reads_has_the_defaults_of_the_model(
    stages: Stages, model: Any
) -> None:
    """S26: documents from before a field was added to their model do not have it."""
    papers = stages.app.documents("paper", model=model)

    @papers.stage(reads=["words", "tags"], writes=["title"])
    async def name(paper: Any) -> Update:
        return Update(title=f"{paper.words} {paper.tags}")

    await stages.install()
    stages.query(
        "insert into mainspring.document (kind, key, body) values ('paper', 'a', '{\"title\": \"x\"}')"
    )
    await stages.run()

    body = stages.value("select body from mainspring.document")
    assert body == {"title": "7 ['none']"}
