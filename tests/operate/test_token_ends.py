"""Tokens of the server's callers: the doctor and the metrics say whose end soon."""

from __future__ import annotations

from datetime import timedelta

from mainspring import Mainspring
from mainspring.operate.doctor import Finding
from mainspring.server.access.tokens import create_token, revoke_token


async def _make(app: Mainspring, name: str, **lifetime: float) -> str:
    pool = await app.pool()
    async with pool.connection(transaction=True) as tx:
        made = await create_token(tx, name, ["task.read"], lifetime=timedelta(**lifetime))
    return made.row.id


async def _found(app: Mainspring) -> list[Finding]:
    return [finding for finding in await app.operator.doctor() if finding.name == "tokens"]


async def test_the_doctor_names_whose_tokens_end_soon(app: Mainspring) -> None:
    """A caller who is shut out over night is told of two weeks before."""
    assert await _found(app) == []
    await _make(app, "web", days=90)
    (good,) = await _found(app)
    assert (good.level, good.text) == ("ok", "tokens of 1 caller are good")

    await _make(app, "loader", days=3)
    gone = await _make(app, "till", days=1)
    await _make(app, "report", microseconds=1)
    pool = await app.pool()
    async with pool.connection(transaction=True) as tx:
        await revoke_token(tx, gone)
    ended, soon = await _found(app)

    assert {ended.level, soon.level} == {"warn"}
    assert ended.text.startswith("1 caller can call no longer, for their tokens expire: report (")
    assert soon.text.startswith(
        "1 caller can soon call no longer, for their tokens expire: loader ("
    )
    assert "mainspring tokens create" in soon.remedy


async def test_a_newer_token_of_the_same_name_counts(app: Mainspring) -> None:
    """Who has changed his token is not told of the old one's end."""
    await _make(app, "web", days=3)
    await _make(app, "web", days=90)

    (good,) = await _found(app)
    assert good.level == "ok"
    ends = await app.operator.token_ends()
    assert [end.name for end in ends] == ["web"]
    text = await app.metrics()
    seconds = int(ends[0].expires_at.timestamp())
    assert f'mainspring_token_expires_timestamp_seconds{{name="web"}} {seconds}' in text
