"""Mainspring(pool=...): one pool for everything that an application declares."""

from __future__ import annotations

import pytest

from mainspring import Mainspring, assembly
from mainspring.db.database import Database
from mainspring.errors import InvalidSetting
from mainspring.reactive import Delta


def declared(app: Mainspring) -> dict[str, str]:
    """A task, a process, a kind, documents and a reactive task, with their pools."""
    loaded = app.data("data").param("loaded_to", external=True)

    @app.task
    def bare() -> None: ...

    @app.task(timeout=5)
    def task() -> None: ...

    @app.process
    def process() -> None: ...

    @app.task(when=Delta(loaded))
    def reactive() -> None: ...

    kind = app.entities("kind", table="kind")
    documents = app.documents("documents")
    found = (bare, task, process, reactive, kind, documents)
    return {one.settings.name: one.settings.pool for one in found}  # type: ignore[attr-defined]


def test_an_application_has_one_pool_for_everything() -> None:
    """T2."""
    app = Mainspring("postgresql://nobody@nowhere/x", pool="billing")
    app.reactive_pool(cap=3)

    assert set(declared(app).values()) == {"billing"}
    assert assembly.declared(app, Database(""))[1] == {"billing"}
    assert set(app.reactive_pools) == {"billing"}


def test_without_one_it_is_the_default() -> None:
    assert set(declared(Mainspring("postgresql://nobody@nowhere/x")).values()) == {"default"}


def test_what_names_a_pool_has_that_one() -> None:
    app = Mainspring("postgresql://nobody@nowhere/x", pool="billing")

    @app.task(pool="default")
    def task() -> None: ...

    @app.process(pool="heavy")
    def process() -> None: ...

    assert (task.settings.pool, process.settings.pool) == ("default", "heavy")
    assert app.documents("documents", pool="heavy").settings.pool == "heavy"


@pytest.mark.parametrize(("pool", "text"), [("", "pool must have a name"), ("a\x1f", "printable")])
def test_a_pool_must_have_a_name(pool: str, text: str) -> None:
    with pytest.raises(InvalidSetting, match=text):
        Mainspring(pool=pool)
