"""The rights of a role that only sets params: those that `mainspring rights params` prints, and no more."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from tables import Base, day

from mainspring import Mainspring
from mainspring.db.schema import rights
from mainspring.errors import MissingRights
from mainspring.reactive.model.values import Param
from roles import Roles, roles


@pytest.fixture
def cast(base: Base) -> Iterator[Roles]:
    with roles(base.url) as found:
        found.make("loader", rights.params("{role}"))
        yield found


async def test_a_loader_needs_no_more_than_is_printed(
    app: Mainspring, base: Base, orders: Param, cast: Roles
) -> None:
    """R1: whoever changes the data sets the params, in its own transaction."""
    await app.reactive.create_param(orders)

    with psycopg.connect(cast.address("loader")) as loader:
        assert app.advance_sync(orders, day(1), on=loader)
        loader.execute("select mainspring.advance(%s, %s::timestamptz)", [orders.key, day(2)])
        loader.commit()

        assert (await app.reactive.params(name=orders.key))[0].value == day(2)
        assert base.visits() == [("mainspring.change", orders.key)]
        with pytest.raises(MissingRights, match="mainspring rights params ROLE"):
            app.rewind_sync(orders, day(1), on=loader)
