"""The view of what must never be, as far as entities go: every rule finds what it is about."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import Saved, Untouched
from stages import Stages

VISIT = (
    "insert into mainspring.visit (shard, key, queue, id, version, payload, priority, due_at) "
    "select mainspring.shard('x', shard_count), 'x', '{queue}', gen_random_uuid(), 1, '{{}}', {priority}, "
    "now() + interval '1 hour' from mainspring.install"
)
STATE = "insert into mainspring.state (shard, kind, key, stage) values (1, 'draft', 'x', 'look')"
EVENT = (
    "insert into mainspring.event (shard, kind, key, number, what, entity_version) "
    "values (1, 'draft', 'a', 7, 'saved', {version})"
)
DELIVERY = (
    "insert into mainspring.delivery (shard, kind, key, consumer, number) "
    "values (1, 'draft', 'a', 'look', 7)"
)
NOT_THERE = "a visit or a state is of a document that is not there"
CASES: list[tuple[list[str], set[str]]] = [
    (
        [VISIT.format(queue="draft/never", priority=5)],
        {"a visit is of a stage that its kind never had", NOT_THERE},
    ),
    (
        [VISIT.format(queue="draft~", priority=5)],
        {"a visit of a crawl goes before live ones", NOT_THERE},
    ),
    (
        [VISIT.format(queue="draft/look~", priority=5)],
        {"a visit of a crawl goes before live ones", NOT_THERE},
    ),
    ([VISIT.format(queue="draft/look~", priority=2)], {NOT_THERE}),
    ([STATE], {NOT_THERE}),
    ([EVENT.format(version=1)], {"an event waits for nobody"}),
    (
        [EVENT.format(version=9), DELIVERY],
        {
            "an event is of a version that its document does not have yet",
            "a delivery has no visit that would make it",
        },
    ),
    ([DELIVERY], {"a delivery has no event", "a delivery has no visit that would make it"}),
]


@pytest.mark.parametrize(("broken", "rules"), CASES)
async def test_what_must_never_be_is_found(
    stages: Stages, broken: list[str], rules: set[str]
) -> None:
    drafts = stages.app.documents("draft")

    class Look:
        async def process(self, draft: dict[str, Any]) -> Untouched:
            return Untouched()

        async def saved(self, event: Saved) -> None: ...

    drafts.stage(Look, name="look")
    await stages.install()
    await drafts.put("a", {"title": "x"})
    await stages.run()
    assert stages.query("select * from mainspring.violation") == []

    for statement in broken:
        stages.query(statement)
    found = {row["rule"] for row in stages.query("select rule from mainspring.violation")}

    assert found == rules
    for table in ("visit", "state", "event", "delivery"):
        stages.query(f"delete from mainspring.{table}")
