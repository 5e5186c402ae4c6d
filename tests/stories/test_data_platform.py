"""The example of a data platform runs, and says what it shows."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "data_platform.py"


def test_thirty_days_of_a_data_platform(capsys: pytest.CaptureFixture[str]) -> None:
    """R2: tasks run by the state of data, not by the clock; R14: what did not is reported."""
    runpy.run_path(str(EXAMPLE), run_name="__main__")

    shown = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines()[3:8]}
    assert set(rows) == {"clean_orders", "count_rides", "revenue", "fleet", "weekly_report"}
    assert all(len(cells) == 30 for cells in rows.values())
    assert rows["revenue"][11:13] == ["!·", "1"], "the rates came a day late"
    assert rows["clean_orders"][17] == rows["revenue"][17] == "2", "three days were done again"
    assert rows["fleet"][20] == "x1"
    assert "revenue  missed its expectation" in shown
    assert "revenue  done in 25m  because dwh.orders.cleaned_to 2026-03-11 -> 2026-03-13" in shown
    assert "next: dwh.orders.cleaned_to >= 2026-03-30 22:00:00Z" in shown
