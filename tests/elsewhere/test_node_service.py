"""The example's stage in Node: another language, the same promises (S10)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from node_service import EXAMPLE, node_command
from services import Service

from mainspring.testing import wait_until

PROTOS = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def node() -> Iterator[Service]:
    command, why = node_command()
    if command is None:
        pytest.skip(f"a stage in Node: {why}")
    found = Service(command, MAINSPRING_PROTOS=PROTOS)
    found.start()
    yield found
    found.end()


@pytest.fixture
def example(mainspring_url: str, node: Service, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's application, its stage at the service's port."""
    monkeypatch.setenv("MAINSPRING_URL", mainspring_url)
    spec = importlib.util.spec_from_loader("example_remote", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    text = (EXAMPLE / "app.py").read_text().replace("127.0.0.1:7500", f"127.0.0.1:{node.port}")
    exec(compile(text, "app.py", "exec"), vars(module))
    return module


async def test_the_example_runs(example: Any, node: Service) -> None:
    """S10: a stage in another language; asked, processing, keeping state, hearing."""
    async with example.app as app:
        await app.migrate()
        for n in range(50):
            await example.listing.put(str(n), {"title": f"A Flat by the Sea {n}", "secret": 1})
        await example.listing.put("blank", {"title": " "})
        await example.listing.put("odd", {"title": "???"})
        async with app.worker() as worker:
            await wait_until(lambda: node.count("saved") >= 50, 60)
            await worker.drained()
            found, version = await example.listing.get("7")
            assert (found["slug"], version) == ("a-flat-by-the-sea-7", 2)
            assert (await example.listing.state("slug", "7"))[0] == {"made": 1}
            assert "slug" not in (await example.listing.get("blank"))[0]
    assert not any("blank" in call for call in node.ids())
    assert max(map(len, node.ids())) > 1  # in batches
    assert sorted({line.split()[1] for line in node.lines("saved")}) == sorted(map(str, range(50)))


async def test_its_failure_is_one_entity_s_and_its_death_is_nobody_s(
    example: Any, node: Service
) -> None:
    """S10: an error in Node is told by its name; killed and started again it goes on."""
    async with example.app as app:
        await app.migrate()
        await example.listing.put("odd", {"title": "???"})
        async with app.worker() as worker:
            await wait_until(lambda: any("odd" in call for call in node.ids()), 60)
            node.kill()
            await example.listing.put("1", {"title": "One"})
            endpoint = worker.buffer.queues["listing/slug"].settings.endpoint
            await wait_until(lambda: endpoint.is_away, 60)
            node.start()
            await wait_until(lambda: node.count("saved") >= 1, 60)
    assert endpoint.reason is None
