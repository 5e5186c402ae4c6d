"""A single call is named alike in all commands: by a task's name and a key, or by its id alone (T11)."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from mainspring import Mainspring
from mainspring.cli.beside import other_dev


@pytest.fixture
def shop(database_url: str, monkeypatch, cli) -> Mainspring:
    monkeypatch.setenv("MAINSPRING_URL", database_url)
    app = Mainspring(database_url)

    @app.task
    async def ship(order: int) -> None: ...

    return app


def test_a_call_is_shown_asked_about_hastened_and_cancelled_in_both_forms(shop, cli) -> None:
    ship = shop.tasks["ship"].options(delay=3600)
    ids = [str(handle.id) for handle in ship.enqueue_many_sync({"order": n} for n in range(4))]
    keyed = ship.options(key="order-7").enqueue_sync(order=7)
    shop.close_sync()

    for form in (["ship", ids[0]], [ids[0]]):
        assert cli("tasks", "show", *form, "--json").json()["live"][0]["id"] == ids[0]
        assert "scheduled" in cli("why", *form).out
    assert cli("tasks", "show", "ship", "order-7", "--json").json()["live"][0]["id"] == str(
        keyed.id
    )
    assert cli("tasks", "show", "order-7", "--json").json()["live"][0]["id"] == str(keyed.id)
    assert cli("tasks", "run-now", ids[0]).out == f"task {ids[0]!r} is waiting\n"
    assert cli("tasks", "cancel", ids[1]).out == f"task {ids[1]!r} is cancelled\n"
    assert cli("tasks", "cancel", "ship", ids[2]).out == f"task 'ship' {ids[2]!r} is cancelled\n"
    assert cli("tasks", "watch", ids[1]).out == "cancelled: cancelled by an operator\n"


def test_an_id_that_is_of_no_call_is_refused(shop, cli) -> None:
    shop.tasks["ship"].enqueue_sync(order=1)
    shop.close_sync()
    unknown = "01890000-0000-7000-8000-000000000000"

    cancelled = cli("tasks", "cancel", unknown)
    asked = cli("why", unknown)

    assert (cancelled.code, asked.code) == (4, 4)
    assert "no call '01890000-0000-7000-8000-000000000000' is live: it has ended" in cancelled.err
    assert "mainspring processes why 01890000-0000-7000-8000-000000000000" in asked.err


def test_a_list_says_that_there_are_more(shop, cli) -> None:
    shop.tasks["ship"].enqueue_many_sync({"order": n} for n in range(3))
    shop.close_sync()

    assert "and more than these 2: --limit" in cli("tasks", "list", "--limit", "2").out
    assert "more" not in cli("tasks", "list", "--limit", "3").out
    assert len(cli("tasks", "list", "--limit", "2", "--json").json()) == 2


def test_a_second_dev_in_a_directory_is_seen(tmp_path) -> None:
    with ExitStack() as first, ExitStack() as second:
        assert other_dev(first, tmp_path) is None
        assert other_dev(second, tmp_path) is not None
        assert other_dev(second, tmp_path.parent) is None
    with ExitStack() as third:
        assert other_dev(third, tmp_path) is None
