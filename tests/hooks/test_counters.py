"""T13: counters and histograms of runs, in one process and over those of a supervisor."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mainspring import Mainspring, RetryPolicy
from mainspring.cli.scraped import endpoint
from mainspring.errors import InvalidSetting
from mainspring.hooks.counters import RunCounters, lines_of, read_counts
from mainspring.testing import run_until_idle


def numbers(text: str) -> dict[str, float]:
    """The samples of a text, by name and labels."""
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def work(app: Mainspring) -> RunCounters:
    counters = app.hooks.count_runs()

    @app.task(retry=RetryPolicy(attempts=2, first=0, most=0))
    async def greet(name: str) -> None:
        if name == "bob":
            raise ValueError("no")

    await greet.enqueue_many([{"name": "ann"}] * 3 + [{"name": "bob"}])
    await run_until_idle(app)
    return counters


async def test_runs_are_counted_by_queue_and_outcome_with_their_times(app: Mainspring) -> None:
    """T13."""
    counters = await work(app)
    text = counters.render()
    found = numbers(text)
    assert found['mainspring_runs_total{queue="greet",outcome="done"}'] == 3
    assert found['mainspring_runs_total{queue="greet",outcome="retry"}'] == 1
    assert found['mainspring_runs_total{queue="greet",outcome="parked"}'] == 1
    for what in ("run", "wait"):
        buckets = [v for n, v in found.items() if n.startswith(f"mainspring_{what}_seconds_bucket")]
        assert buckets == sorted(buckets)
        assert buckets[-1] == found[f'mainspring_{what}_seconds_count{{queue="greet"}}'] == 5
        assert found[f'mainspring_{what}_seconds_sum{{queue="greet"}}'] >= 0
    assert text.endswith("# EOF\n")
    assert await app.metrics()


async def test_a_process_counts_on_where_the_one_before_it_ended(
    app: Mainspring, tmp_path: Path
) -> None:
    """T13: a number never falls, though processes come and go."""
    file = tmp_path / "0.json"
    assert read_counts(file) == {}
    counters = await work(app)
    counters.write(file)
    again = RunCounters(read_counts(file))
    again.write(tmp_path / "1.json")
    assert not (tmp_path / "1.json").exists(), "nothing has changed"
    assert again.queues == counters.queues
    both = numbers("\n".join(lines_of([read_counts(file), read_counts(file)])))
    assert both['mainspring_runs_total{queue="greet",outcome="done"}'] == 6
    (tmp_path / "broken.json").write_text("{")
    assert read_counts(tmp_path / "broken.json") == {}


def test_an_address_that_is_none_is_refused() -> None:
    for address in ("9464", "localhost:", "localhost:99999", "localhost:x"):
        if address == "9464":
            continue
        with (
            pytest.raises(InvalidSetting, match=re.escape(f"127.0.0.1:9464, got {address!r}")),
            endpoint(address, None),
        ):
            pass
