"""Routes, tokens and ids: the same in SQL and in Python (S12)."""

from __future__ import annotations

from uuid import RFC_4122, UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainspring.ids import Tokens, grouped_key, new_ids, shard_of, token
from visits import Visits

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(route=TEXT, count=st.integers(1, 65536))
def test_the_shard_of_a_route_is_the_same_in_sql_and_python(
    visits: Visits, route: str, count: int
) -> None:
    assert visits.value("select mainspring.shard(%s, %s)", route, count) == shard_of(route, count)


def test_the_shard_of_a_route_never_changes() -> None:
    """Rows lie where this function put them: it is fixed for ever."""
    found = [shard_of(route, 1024) for route in ("a", "order 7", "é", "\N{SNOWMAN}")]

    assert found == [274, 906, 382, 865]


def test_shards_are_evenly_used() -> None:
    counts = [0] * 64
    for n in range(6400):
        counts[shard_of(f"key {n}", 64)] += 1

    assert min(counts) > 50
    assert max(counts) < 160


@given(st.tuples(st.none() | TEXT, TEXT), st.tuples(st.none() | TEXT, TEXT))
def test_two_pairs_of_group_and_key_never_make_one_key(one, two) -> None:
    if one != two:
        assert grouped_key(*one) != grouped_key(*two)


@given(
    group=st.sampled_from(["a", "1", "a:b"]),
    key=st.from_regex(r"\A[0-9]{1,2}:[a1]:.", fullmatch=True),
)
def test_a_key_that_looks_grouped_is_no_grouped_key(group: str, key: str) -> None:
    assert grouped_key(None, key) != grouped_key(group, key.partition(":")[2])
    assert grouped_key(None, grouped_key(group, key)) != grouped_key(group, key)


def test_tokens_are_64_bits_and_never_the_same(visits: Visits) -> None:
    found = {token() for _ in range(10_000)}
    from_sql = {
        row["t"]
        for row in visits.query("select mainspring.token() as t from generate_series(1, 10000)")
    }

    assert len(found | from_sql) == 20_000
    assert all(-(2**63) <= value < 2**63 for value in found | from_sql)
    assert min(from_sql) < -(2**62)
    assert max(from_sql) > 2**62


def test_the_tokens_of_two_workers_never_meet() -> None:
    one, two = Tokens(), Tokens()

    assert not {one.draw() for _ in range(1000)} & {two.draw() for _ in range(1000)}


def test_ids_are_version_7_and_rise_within_a_list() -> None:
    found = [UUID(id) for id in new_ids(1000)]

    assert all((id.version, id.variant) == (7, RFC_4122) for id in found)
    assert found == sorted(found)
    assert len(set(found)) == 1000


def test_ids_from_sql_are_version_7_and_ordered_in_time(visits: Visits) -> None:
    found = [visits.value("select mainspring.uuid7()") for _ in range(5)]

    assert all((id.version, id.variant) == (7, RFC_4122) for id in found)
    assert [id.int >> 80 for id in found] == sorted(id.int >> 80 for id in found)
