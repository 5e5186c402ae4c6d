"""Tables: as wide as there is room, and nothing is cut."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, text, tuples

from mainspring.cli import show
from mainspring.cli.table import columns, draw, fitting, room

LONG = "ValueError: " + "x" * 400
ID = "01a1e9e1-03a7-7f2c-b5ce-8c3a83e63038"


@pytest.fixture
def no_columns(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("COLUMNS", raising=False)
    return monkeypatch


def test_in_a_pipe_nothing_is_cut(no_columns, capsys) -> None:
    show.print_table(("queue", "error"), [("mail", LONG)], empty="none")

    assert f"mail   {LONG}" in capsys.readouterr().out.splitlines()


def test_in_a_pipe_columns_says_how_wide(no_columns, capsys) -> None:
    no_columns.setenv("COLUMNS", "60")

    show.print_table(("queue", "error"), [("mail", "ValueError: " + "xyz " * 40)], empty="none")

    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 60
    assert shown.count("xyz") == 40
    assert "mail " in shown


@pytest.mark.parametrize("said", ["", "0", "-5", "wide"])
def test_columns_that_is_no_width_is_none(no_columns, said: str) -> None:
    no_columns.setenv("COLUMNS", said)

    assert room() is None


def test_on_a_terminal_its_width_counts(no_columns) -> None:
    no_columns.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    no_columns.setattr("shutil.get_terminal_size", lambda: type("Size", (), {"columns": 71}))

    assert room() == 71


def test_texts_go_on_in_the_next_line_and_numbers_stand_right() -> None:
    drawn = draw(("n", "text"), [("7", "a b " * 15), ("12", "b")], right=(True, False), width=36)

    assert drawn[0] == " n  text"
    assert drawn[2:] == [
        " 7  a b a b a b a b a b a b a b a b",
        "    a b a b a b a b a b a b a b",
        "12  b",
    ]


def test_what_has_no_room_stands_below_its_row() -> None:
    header, right = ("queue", "key", "group", "error"), (False,) * 4
    rows = [("mail", ID, "-", "ValueError: a"), ("mail", "k", "-", "-")]

    assert draw(header, rows, right=right, width=44) == [
        "queue  error",
        "────────────────────",
        "mail   ValueError: a",
        f"    key: {ID}",
        "mail   -",
        "    key: k",
    ]


def test_what_is_the_same_in_each_row_is_said_once() -> None:
    header, rows = ("queue", "pool of it"), [("a" * 20, "default"), ("b" * 20, "default")]

    drawn = draw(header, rows, right=(False, False), width=24)

    assert drawn[2:] == ["a" * 20, "b" * 20, "    pool of it of each: default"]


def test_a_name_is_broken_before_a_word_is() -> None:
    header = ("text", "certificate")
    drawn = draw(header, [("a" * 16, "1")], right=(False, True), width=22)

    assert drawn[:3] == ["text" + " " * 14 + "cert", " " * 18 + "ific", " " * 19 + "ate"]
    assert "a" * 16 in drawn[-1]


def test_a_long_name_gives_way_before_the_cells_do() -> None:
    drawn = draw(("waiting", "pool"), [("7", "default")], right=(True, False), width=13)

    assert drawn == ["wait  pool", " ing", "─" * 13, "   7  default"]


def test_values_beside_their_names_are_folded_at_words() -> None:
    rows = [("id", ID), ("error", "one two three")]

    drawn = draw(None, rows, right=(False, False), width=15)

    assert drawn == [f"id     {ID}", "error  one two", "       three"]


@given(
    rows=lists(tuples(*[text(alphabet="ab- ü東1\n", max_size=60)] * 4), min_size=1, max_size=4),
    width=integers(60, 130),
)
def test_a_word_is_never_broken_and_no_line_too_long(
    rows: list[tuple[str, ...]], width: int
) -> None:
    """Of any table: what is copied from one is what was meant, on 60 columns too."""
    tall = [(ID, *row, "2026-11-19 14:00:00Z") for row in rows]
    header = ("id", "queue", "waiting", "a long name of it", "error", "since")

    drawn = draw(header, tall, right=[False] * 6, width=width)

    least = width - 31  # what is left beside the longest name below a row
    fit = all(columns(word) <= least for row in tall for cell in row for word in cell.split())
    if fit:
        assert max(map(columns, drawn)) <= width
    shown = [" ".join(line.split()) for line in drawn]
    assert sum(ID in line for line in shown) == len(rows)
    for row in tall:
        for cell in row:
            if cell not in ("", "-"):
                for word in cell.split():
                    assert any(word in line.split() for line in shown), word


def test_wide_characters_take_two_columns() -> None:
    assert (columns("東京"), columns("e\u0301"), fitting("東京x", 3)) == (4, 1, 1)
    assert draw(None, [("東京", "x"), ("ab", "y")], right=(False, False), width=None) == [
        "東京  x",
        "ab    y",
    ]


def test_what_standard_output_cannot_encode_is_no_error(monkeypatch, capfdbinary) -> None:
    with open(1, "w", encoding="ascii", closefd=False) as narrow:
        monkeypatch.setattr(sys, "stdout", narrow)
        show.write("caf\u00e9 ─")

    assert capfdbinary.readouterr().out == b"caf? ?\n"
