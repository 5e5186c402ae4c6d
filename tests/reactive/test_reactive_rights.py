"""The rights of a role that only sets params: those that the page on rights grants, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from tables import Base, day

from mainspring import Mainspring
from mainspring.reactive.values import Param

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "rights.md"


@pytest.fixture
def loader(base: Base) -> Iterator[psycopg.Connection[object]]:
    """A connection of the role that the page makes."""
    block = re.search(r"```sql\n(create role app_loader.*?)```", PAGE.read_text(), re.S)
    assert block is not None
    role = sql.Identifier(base.value("select 'loader_of_' || current_database()"))
    for line in block[1].replace("\n ", " ").strip().splitlines():
        base.connection.execute(sql.SQL(line.replace("app_loader", "{}")).format(role))  # type: ignore[arg-type]
    with psycopg.connect(base.url) as connection:
        connection.execute(sql.SQL("set role {}").format(role))
        connection.commit()
        yield connection
        connection.rollback()
    base.connection.execute(sql.SQL("drop owned by {}; drop role {}").format(role, role))


async def test_a_loader_needs_no_more_than_the_page_grants(
    app: Mainspring, base: Base, orders: Param, loader: psycopg.Connection[object]
) -> None:
    """R1: whoever changes the data sets the params, in its own transaction."""
    await app.reactive.create_param(orders)

    assert app.advance_sync(orders, day(1), on=loader)
    loader.execute("select mainspring.advance(%s, %s::timestamptz)", [orders.key, day(2)])
    loader.commit()

    assert (await app.reactive.params(name=orders.key))[0].value == day(2)
    assert base.visits() == [("mainspring.change", orders.key)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        app.rewind_sync(orders, day(1), on=loader)


def test_the_page_names_every_table_of_the_layer(base: Base) -> None:
    text = PAGE.read_text()
    tables = base.rows(
        "select relname from pg_class where relnamespace = 'mainspring'::regnamespace"
        " and relkind in ('r', 'p') and relname ~ '^(param|uses|produces|definition|reactive|evalu)'"
    )

    assert [row["relname"] for row in tables if f"mainspring.{row['relname']}" not in text] == []
