"""Kinds that moved, that resemble each other, and that no code has any more."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import Saved, Untouched
from mainspring.errors import NotFound, Refused
from mainspring.operate.doctor import Finding
from stages import Stages


async def findings(stages: Stages, name: str) -> list[Finding]:
    return [f for f in await stages.app.operator.doctor() if f.name == name]


def triggers(stages: Stages, table: str = "listing") -> list[str]:
    rows = stages.query(
        "select tgname from pg_trigger where tgrelid = %s::regclass and not tgisinternal order by 1",
        table,
    )
    return [row["tgname"].removeprefix("zz_mainspring_") for row in rows]


OWN = ["a_clear", "b_clear", "bump", "clear", "delete", "first", "insert", "update"]


async def test_kinds_whose_names_begin_alike_keep_their_own_triggers(stages: Stages) -> None:
    """S21: a migration of one that does not know the other leaves the other's alone."""
    stages.kind("listing_row")
    await stages.install()
    async with stages.next_release():
        stages.kind("listing")
        await stages.install()
        (found, other) = await findings(stages, "capture")

    assert triggers(stages) == sorted(f"{k}_{t}" for k in ("listing", "listing_row") for t in OWN)
    assert (found.level, other.level) == ("ok", "ok")


async def test_triggers_on_the_table_that_a_kind_had_before_are_reported_and_dropped(
    stages: Stages,
) -> None:
    """S21: a kind that moved to another table does not see the old one's changes any more."""
    stages.kind()
    await stages.install()
    stages.query("create table offer (like listing including all)")
    async with stages.next_release():
        stages.kind(table="public.offer")
        async with stages.working():
            pass
        left = await findings(stages, "capture")
        await stages.install()
        (sound,) = await findings(stages, "capture")

    texts = [f.text for f in left if f.level == "warn"]
    assert any("triggers of an earlier declaration are left" in text for text in texts), left
    assert sound.level == "ok"
    assert triggers(stages) == []
    assert len(triggers(stages, "offer")) == len(OWN)


async def test_a_kind_that_no_worker_has_is_reported_and_can_be_dropped(stages: Stages) -> None:
    """S26: its triggers go, with visits, states and events; the entities stay as they are."""
    kind = stages.kind()

    class Keep:
        async def process(self, listing: dict[str, Any], state: Any) -> Untouched:
            return Untouched(state=1, visit_in=3600)

        async def saved(self, event: Saved) -> None:
            raise RuntimeError("not now")

    kind.stage(Keep)
    await stages.install()
    stages.add(1, 2)
    await stages.run()
    assert await findings(stages, "kind") == []

    async with stages.next_release():
        stages.query("create table other (id bigint primary key, version bigint default 1)")
        stages.kind("other", table="other")
        async with stages.working():
            (finding,) = await findings(stages, "kind")
        dropped = await stages.app.operator.entities.drop_kind("listing")
        with pytest.raises(NotFound, match="no kind of entities is named 'listing'"):
            await stages.app.operator.entities.drop_kind("listing")

    assert "no worker serves kind 'listing'" in finding.text
    assert finding.remedy.endswith("mainspring entities drop listing")
    assert dropped == 4  # two timers, two events on their way
    assert triggers(stages) == []
    for table in ("visit", "state", "event", "delivery", "stage", "consumer"):
        assert stages.query(f"select * from mainspring.{table} where {_of(table)}") == []
    stages.change(1, title="nobody minds")
    assert stages.listing()["version"] == 1


def _of(table: str) -> str:
    return "starts_with(queue, 'listing')" if table == "visit" else "kind = 'listing'"


async def test_a_kind_that_is_served_or_has_documents_is_not_dropped(stages: Stages) -> None:
    stages.kind()
    drafts = stages.app.documents("draft")
    await stages.install()
    await drafts.put("a", {"title": "x"})

    async with stages.working():
        with pytest.raises(Refused, match="is served by 1 workers; stop them first"):
            await stages.app.operator.entities.drop_kind("listing")
    with pytest.raises(Refused, match="has 1 documents"):
        await stages.app.operator.entities.drop_kind("draft")

    assert len(triggers(stages)) == len(OWN)
