"""`mainspring queues limit --waiting-max`: how many visits of a queue may wait."""

from __future__ import annotations

import psycopg

from visits import Visits, queue


def test_a_bound_is_set_shown_and_lifted(cli, visits: Visits, database_url: str) -> None:
    visits.register(queue("greet"))

    def limit(value: str):
        return cli("queues", "limit", "greet", "--waiting-max", value, "--url", database_url)

    assert "waiting_max 3" in limit("3").out
    assert "waiting max 3" in cli("queues", "list", "--url", database_url).out
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update mainspring.queue set is_full = true")
    assert "full at 3" in cli("queues", "list", "--url", database_url).out
    assert "waiting_max lifted" in limit("none").out
    assert "full" not in cli("queues", "list", "--url", database_url).out
    wrong = limit("1.5")
    assert (wrong.code, "waiting_max must be a number or 'none'" in wrong.err) == (2, True)
