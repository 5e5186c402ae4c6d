"""Endpoints that are away, as operators see them: by why, status, metrics and the doctor."""

from __future__ import annotations

import asyncio

from mainspring import Mainspring
from mainspring.endpoint import REASON_BYTES, AwayNews, Endpoint
from mainspring.errors import EndpointAway
from mainspring.kernel import Done, Outcome, Run
from mainspring.metrics import render
from mainspring.operate.doctor import judge_status
from mainspring.testing import wait_until
from visits import Visits, queue
from workers import working


class Peer:
    """Somebody elsewhere, who is there when the test says so."""

    def __init__(self, name: str = "photos") -> None:
        self.is_there = asyncio.Event()
        self.endpoint = Endpoint(name, self._probe)

    async def _probe(self) -> None:
        if not self.is_there.is_set():
            raise EndpointAway("connection refused\x00 \ud800" + "x" * 1000)

    async def handle(self, _: Run) -> Outcome:
        return Done()


async def test_who_is_away_is_told_by_why_status_metrics_and_doctor(
    visits: Visits, database_url: str, app: Mainspring
) -> None:
    """Since when and why; whatever is in the reason, the worker beats on."""
    peer = Peer()
    peer.endpoint.left(EndpointAway("connection refused\x00"))
    apart = queue("apart", handler=peer.handle, endpoint=peer.endpoint, slots=3)
    visits.offer("a", queue="apart")
    async with working(database_url, apart):
        await wait_until(lambda: visits.query("select 1 from mainspring.worker where away <> '[]'"))
        found = await app.operator.why("apart", "a")
        [cause] = found.causes
        assert cause.name == "away"
        assert cause.text.startswith("photos is away since 20")
        assert "connection refused" in cause.text
        assert cause.facts["endpoint"] == "photos"

        status = await app.operator.status()
        [(away, workers)] = status.away
        assert (away.endpoint, away.queues, workers) == ("photos", ["apart"], 1)
        text = render(status, [], [], [])
        assert 'mainspring_endpoint_away{endpoint="photos"} 1' in text
        assert 'mainspring_endpoint_away_seconds{endpoint="photos"} ' in text
        [finding] = [f for f in judge_status(status) if f.name == "away"]
        assert finding.level == "warn"
        assert "photos is away since" in finding.text
        assert "apart wait" in finding.text

        peer.is_there.set()
        await wait_until(lambda: visits.row("a", queue="apart") is None, 30)
        await wait_until(
            lambda: visits.query(
                "select 1 from mainspring.worker where away @> '[{\"at_once\": 1}]'"
            ),
            30,
        )
        assert "coming back, 1 run at once" in (await app.operator.status()).away[0][0].text
        for _ in range(9):
            peer.endpoint.succeeded()
        await wait_until(
            lambda: visits.query("select 1 from mainspring.worker where away = '[]'"), 30
        )
    await peer.endpoint.close()


async def test_a_beat_tells_only_what_has_changed() -> None:
    peer, other = Peer(), Peer("mail")
    news = AwayNews(
        [("a", peer.endpoint), ("b", peer.endpoint), ("c", other.endpoint), ("d", None)]
    )
    assert news.news() is None
    peer.endpoint.left(EndpointAway("x" * 10_000))
    said = news.news()
    assert said is not None
    assert '"queues":["a","b"]' in said
    assert len(said) < REASON_BYTES + 200
    assert news.news() == said, "until it was answered it is sent again"
    news.answered()
    assert news.news() is None
    news.joined()
    assert news.news() == said, "a new row says nothing yet"
    await peer.endpoint.close()
