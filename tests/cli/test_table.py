"""Tables: as wide as there is room, and nothing is cut."""

from __future__ import annotations

import sys

import pytest

from mainspring.cli import show
from mainspring.cli.table import columns, draw, fitting, room

LONG = "ValueError: " + "x" * 400


@pytest.fixture
def no_columns(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("COLUMNS", raising=False)
    return monkeypatch


def test_in_a_pipe_nothing_is_cut(no_columns, capsys) -> None:
    show.print_table(("queue", "error"), [("mail", LONG)], empty="none")

    assert f"mail   {LONG}" in capsys.readouterr().out.splitlines()


def test_in_a_pipe_columns_says_how_wide(no_columns, capsys) -> None:
    no_columns.setenv("COLUMNS", "60")

    show.print_table(("queue", "error"), [("mail", LONG)], empty="none")

    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) == 60
    assert shown.count("x") == 400
    assert "mail " in shown


@pytest.mark.parametrize("said", ["", "0", "-5", "wide"])
def test_columns_that_is_no_width_is_none(no_columns, said: str) -> None:
    no_columns.setenv("COLUMNS", said)

    assert room() is None


def test_on_a_terminal_its_width_counts(no_columns) -> None:
    no_columns.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    no_columns.setattr("shutil.get_terminal_size", lambda: type("Size", (), {"columns": 71}))

    assert room() == 71


def test_the_widest_columns_give_way_and_numbers_stand_right() -> None:
    drawn = draw(("n", "text"), [("7", "a" * 10), ("12", "b")], right=(True, False), width=9)

    assert drawn == [" n  text", "─" * 9, " 7  aaaaa", "    aaaaa", "12  b"]


def test_a_name_over_a_narrow_column_stays_readable() -> None:
    drawn = draw(("text", "certificate"), [("a" * 30, "-")], right=(False, False), width=20)

    assert drawn[:3] == ["text" + " " * 12 + "cert", " " * 16 + "ific", " " * 16 + "ate"]


def test_a_long_name_gives_way_before_the_cells_do() -> None:
    drawn = draw(("waiting", "pool"), [("7", "default")], right=(True, False), width=13)

    assert drawn == ["wait  pool", " ing", "─" * 13, "   7  default"]


def test_a_table_is_drawn_where_there_is_no_room_at_all() -> None:
    assert draw(None, [("abc", "de")], right=(False, False), width=2) == ["a  d", "b  e", "c"]


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
