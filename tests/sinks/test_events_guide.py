"""The guide of events runs as it stands: its sinks are declared, and its own sink gets what was saved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mainspring.testing import wait_until
from stages import Stages

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "events.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


async def test_the_guide_s_program_declares_its_sinks_and_its_own_one_works(
    stages: Stages, monkeypatch: Any
) -> None:
    monkeypatch.setenv("MAINSPRING_URL", stages.url)
    declared, own, again = blocks()
    names: dict[str, Any] = {}
    exec(declared, names)
    assert sorted(names["listing"].sinks) == ["kafka", "nats", "partner"]
    for name in ("kafka", "nats", "partner"):
        del names["listing"].sinks[name]  # those hosts are only the guide's
    exec(own, names)
    exec(again, names)
    app, ledger = names["app"], names["listing"].sinks["ledger"].target
    stages.add(1, price=7)
    async with app:
        await app.migrate()
        stages.change(price=8)
        async with app.worker():
            await wait_until(lambda: len(ledger.rows) == 1, 20)
            await names["tell_again"]("ledger")
            await wait_until(lambda: len(ledger.rows) == 3, 30)
    (number, what, entity), *more = ledger.rows
    assert (what, entity["rank"]) == ("saved", 8)
    assert sorted(what for _, what, _ in more) == ["saved", "snapshot"]
    assert (number, "saved", entity) in more
    assert ledger.is_open is False
