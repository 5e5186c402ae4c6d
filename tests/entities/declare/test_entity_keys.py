"""Ids: any type that maps to a text and back (S25)."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.entities.declare.ids import canonical, check_key, id_text, join, split
from mainspring.errors import InvalidKey
from offered import offered
from stages import Stages

VALUES: list[tuple[str, Any, str]] = [
    ("bigint", 7, "7"),
    ("bigint", " +007 ", "7"),
    ("text", "Ünï 'q\"\\", "Ünï 'q\"\\"),
    ("uuid", UUID("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("uuid", "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("numeric(8,2)", Decimal("1E+2"), "100.00"),
    ("timestamptz", datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01 00:00:00+00"),
    ("timestamptz", "2026-01-01T03:00+03", "2026-01-01 00:00:00+00"),
    ("date", date(2026, 1, 2), "2026-01-02"),
    ("interval", timedelta(days=1, seconds=5), "1 day 00:00:05"),
    ("bytea", b"\xde\xad", "\\xdead"),
    ("boolean", True, "true"),
    ("double precision", 0.1, "0.1"),
    ("character(4)", "ab  ", "ab"),
    ("varchar(3)", "abcd", "abcd"),  # never cut to another id
    ("int4range", "[1,3]", "[1,4)"),
]


@pytest.mark.parametrize(("type_", "value", "text"), VALUES)
async def test_an_id_of_any_type_has_one_canonical_text(
    stages: Stages, type_: str, value: Any, text: str
) -> None:
    """S25: any id type that maps to a string and back; the same text from every writing."""
    stages.query(f"create table thing (id {type_} primary key)")
    kind = stages.kind("thing", table="thing", version="xmin")
    await stages.install()

    await kind.changed([value])
    assert set(offered(stages, "thing")) == {text}
    pool = await stages.app.pool()
    async with pool.connection() as connection:
        assert await canonical(connection, "thing", [text, kind.key_of(value)]) == [text, text]


async def test_composite_ids_are_arrays_of_texts(stages: Stages) -> None:
    """S25: composite keys too."""
    stages.query("create table pair (day date, name text, n integer, primary key (day, name))")
    kind = stages.kind("pair", table="pair", key=["name", "day"], version="xmin")
    await stages.install()
    text = '["a\\"b\\\\c\\n☃", "2026-01-02"]'

    stages.query("insert into pair values ('2026-01-02', %s, 0)", 'a"b\\c\n☃')
    assert set(offered(stages, "pair")) == {text}
    stages.query("insert into pair values ('2026-01-03', 'x', 0), ('2026-01-03', 'y', 0)")
    assert set(offered(stages, "pair")) == {'["x", "2026-01-03"]', '["y", "2026-01-03"]'}
    await kind.changed([('a"b\\c\n☃', date(2026, 1, 2))])
    await kind.changed([text])

    assert set(offered(stages, "pair")) == {text}
    assert split(text, kind.keys) == ['a"b\\c\n☃', "2026-01-02"]


@pytest.mark.parametrize("bad", ["", "\x00", "\ud800", "x" * 1301, None, object(), ("a", "b"), {}])
def test_what_cannot_be_an_id_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidKey):
        id_text(bad, ["id"])


@pytest.mark.parametrize("bad", ["a", "[1, true]", '["a"]', ("a",), 7, ("a", "b", "c")])
def test_what_cannot_be_a_composite_id_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidKey):
        id_text(bad, ["a", "b"])


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
        min_size=2,
        max_size=3,
    )
)
def test_composite_texts_come_apart_as_they_were_joined(parts: list[str]) -> None:
    """S25: and back."""
    text = join(parts)

    assert split(text, ["c"] * len(parts)) == parts
    assert json.loads(text) == parts


async def test_python_and_sql_write_the_same_composite_text(stages: Stages) -> None:
    """S12: the same in SQL and Python, or an entity would have two shards."""
    odd = ["".join(map(chr, range(1, 256))), "\u2028☃\U0001f600", '"\\/', "\x7f"]

    row = stages.query(
        "select jsonb_build_array(%s::text, %s::text, %s::text, %s::text)::text as t", *odd
    )

    assert row == [{"t": join(odd)}]


def test_a_key_is_told_apart_from_one_that_is_too_long() -> None:
    assert check_key("x" * 1300) == "x" * 1300
    with pytest.raises(InvalidKey, match="is 1301 bytes, the limit is 1300"):
        check_key("x" * 1301)
