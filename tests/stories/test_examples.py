"""The shipped examples run and do what they say."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

from mainspring.testing import run_until_idle

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(mainspring_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.setenv("MAINSPRING_URL", mainspring_url)

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load


async def test_orders_are_fulfilled_approved_or_called_off(example) -> None:
    """P15: payment, human approval and compensation."""
    orders = example("orders")
    async with orders.app as app:
        small = await orders.order.start(1, "tea", 30)
        large = await orders.order.start(2, "tea", 900)
        refused = await orders.order.start(3, "tea", 900)
        broke = await orders.order.start(4, "tea", 9_000)
        await run_until_idle(app)
        await large.signal(orders.approved, True, sent_by="ann")
        await refused.signal("approved", False)
        await broke.signal("approved", True)
        await run_until_idle(app)

        assert await small.result(5) == "order 1 shipped"
        assert await large.result(5) == "order 2 shipped"
        assert await refused.result(5) == "order 3 was not approved"
        assert await broke.result(5) == "order 4 was called off: the bank refused 9000"


async def test_the_crawler_counts_every_page(example, monkeypatch: pytest.MonkeyPatch) -> None:
    """P15: wide fan-out in a loop."""
    crawler = example("crawler")
    monkeypatch.setattr(crawler, "WIDTH", 6)
    async with crawler.app as app:
        handle = await crawler.crawl.start(3, [0])
        await run_until_idle(app)

        assert await handle.result(5) == 1 + 6 + 36


async def test_the_nightly_pipeline_goes_on_without_what_did_not_come(example) -> None:
    """P9: a failure that is caught does not stop the others."""
    nightly = example("nightly")
    sunday, monday = date(2026, 11, 15), date(2026, 11, 16)
    async with nightly.app as app:
        first = await nightly.nightly.start(sunday)
        second = await nightly.nightly.start(monday)
        await run_until_idle(app)

        assert await first.result(5) == "2026-11-15: 1300 rows, without visits"
        assert await second.result(5) == "2026-11-16: 1900 rows"
