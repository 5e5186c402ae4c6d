"""Who may call, and what: scopes, tokens, settings that would leave a server open."""

from __future__ import annotations

import asyncio
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring import errors as all_errors
from mainspring.errors import (
    InvalidSetting,
    MainspringError,
    NotFound,
    Overloaded,
    Unauthenticated,
)
from mainspring.server.access import callers as believing
from mainspring.server.access import tokens
from mainspring.server.access.callers import Callers
from mainspring.server.access.local import local_token
from mainspring.server.access.scopes import VERBS, Scopes, check_scopes
from mainspring.server.handlers.statuses import answered
from mainspring.server.handlers.store import Store
from mainspring.server.settings import ServeSettings, checked


@pytest.mark.parametrize(
    ("scope", "verb", "name", "allowed"),
    [
        ("enqueue:mail.*", "enqueue", "mail.send", True),
        ("enqueue:mail.*", "enqueue", "mail.", True),
        ("enqueue:mail.*", "enqueue", "mailer", False),
        ("enqueue:mail.*", "enqueue", "x.mail.send", False),
        ("enqueue:mail.send", "enqueue", "mail.send2", False),
        ("enqueue:mail.send", "enqueue", "mailXsend", False),
        ("enqueue", "enqueue", "anything at all", True),
        ("enqueue", "task.read", "mail.send", False),
        ("task.read:*", "task.read", "a\nb", True),
        ("state.read:listing/*", "state.read", "listing/price", True),
        ("state.read:listing/*", "state.write", "listing/price", False),
        ("state.read:[a-z]*", "state.read", "listing/price", False),
        ("admin", "param.rewind", "x.y", True),
    ],
)
def test_a_scope_is_a_verb_and_a_pattern(scope: str, verb: str, name: str, allowed: bool) -> None:
    assert Scopes([scope]).allow(verb, name) is allowed


@pytest.mark.parametrize("scope", ["", "enqueu", "enqueue:", "admin:x", "*", "task.*"])
def test_a_scope_that_nobody_knows_is_refused(scope: str) -> None:
    with pytest.raises(InvalidSetting):
        check_scopes([scope])


@pytest.mark.parametrize("scope", ["enqueue:mail.*,task.read", "enqueue:a, admin", "pull:a pull:b"])
def test_several_scopes_in_one_are_refused(scope: str) -> None:
    """Such a token would be made, and let its owner do nothing."""
    with pytest.raises(InvalidSetting, match="give --scope once for each"):
        check_scopes([scope])
    assert check_scopes(["enqueue:a, b", "enqueue:a,administer"])  # a task may be named so


def test_scopes_are_needed() -> None:
    with pytest.raises(InvalidSetting, match="can do nothing"):
        check_scopes([])
    assert check_scopes(["enqueue:a", "enqueue:a", "admin"]) == ["enqueue:a", "admin"]
    assert len(VERBS) == len(set(VERBS))


@pytest.mark.parametrize(
    "settings",
    [
        ServeSettings("0.0.0.0:7411"),
        ServeSettings("[::]:7411"),
        ServeSettings("example.org:7411"),
        ServeSettings("192.168.1.1:7411", tls_cert="c", tls_key="k", no_auth=True),
        ServeSettings("0.0.0.0:7411", no_auth=True),
        ServeSettings("127.0.0.1:7411", tls_cert="c"),
        ServeSettings("127.0.0.1:7411", client_ca="c"),
        ServeSettings("127.0.0.1"),
        ServeSettings(":7411"),
        ServeSettings("127.0.0.1:99999"),
        ServeSettings("unix:relative"),
        ServeSettings("unix:/tmp/s", processes=2),
        ServeSettings(processes=0),
    ],
    ids=lambda s: s.grpc,
)
def test_a_server_that_would_be_open_or_nowhere_does_not_start(settings: ServeSettings) -> None:
    with pytest.raises(InvalidSetting):
        checked(settings)


@pytest.mark.parametrize(
    "settings",
    [
        ServeSettings(),
        ServeSettings("[::1]:7411", no_auth=True),
        ServeSettings("localhost:7411"),
        ServeSettings("unix:/tmp/s", no_auth=True),
        ServeSettings("0.0.0.0:7411", tls_cert="c", tls_key="k"),
        ServeSettings("0.0.0.0:7411", tls_cert="c", tls_key="k", client_ca="a", processes=4),
    ],
    ids=lambda s: s.grpc,
)
def test_a_server_that_asks_for_proof_starts(settings: ServeSettings) -> None:
    assert checked(settings) is settings


def test_the_token_of_this_machine_is_made_once_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    place = tmp_path / "in" / "token"
    text = local_token(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert local_token(place) == text
    place.chmod(0o640)
    with pytest.raises(InvalidSetting, match="readable by nobody else"):
        local_token(place)
    place.chmod(0o600)
    place.write_text("not a token\n")
    with pytest.raises(InvalidSetting, match="has no token in it"):
        local_token(place)
    link = tmp_path / "link"
    link.symlink_to(place)
    with pytest.raises(InvalidSetting, match="cannot be read"):
        local_token(link)


async def test_a_token_is_found_until_it_is_revoked(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the database said is believed for less than 5 seconds; its secret is nowhere."""
    pool = await app.pool()
    async with pool.connection(transaction=True) as tx:
        made = await tokens.create_token(tx, "web", ["enqueue:mail.*"], by="ann")
        short = await tokens.create_token(tx, "old", ["admin"], lifetime=timedelta(microseconds=1))
    assert made.text is not None
    assert short.text is not None
    callers = Callers(Store(app))
    found = await callers.find(f"Bearer {made.text}")
    assert (found.name, found.scopes.texts) == ("web", ("enqueue:mail.*",))
    for wrong in (
        f"Bearer {short.text}",
        f"Bearer {made.text[:-1]}{'A' if made.text[-1] != 'A' else 'B'}",
        "Bearer msp_000000000000_" + "x" * 43,
        f"Basic {made.text}",
        "Bearer",
        "",
    ):
        with pytest.raises(Unauthenticated):
            await callers.find(wrong)
    with pytest.raises(Unauthenticated, match="say who you are"):
        await callers.find(None)

    async with pool.connection(transaction=True) as tx:
        await tokens.revoke_token(tx, made.row.id)
        rows = await tokens.list_tokens(tx)
        stored = await tx.fetch("select api_token::text as row from mainspring.api_token")
        with pytest.raises(NotFound):
            await tokens.revoke_token(tx, "nobody")
    assert {row.id: row.is_good for row in rows} == {made.row.id: False, short.row.id: False}
    assert not any(made.text.rpartition("_")[2] in row["row"] for row in stored)
    noted = [(order.action, order.target, order.actor) for order in await app.operator.orders()]
    assert ("tokens.create", made.row.id, "ann") in noted
    assert ("tokens.revoke", made.row.id) in [order[:2] for order in noted]
    assert believing.BELIEVED_SECONDS < 5
    await callers.find(f"Bearer {made.text}")  # believed for now
    monkeypatch.setattr(believing, "BELIEVED_SECONDS", 0.0)
    with pytest.raises(Unauthenticated, match="expired or was revoked"):
        await callers.find(f"Bearer {made.text}")


async def test_a_burst_of_one_caller_asks_the_database_once(app: Mainspring) -> None:
    """A store with room for one statement refuses a second; some who wait may go away meanwhile."""
    pool = await app.pool()
    async with pool.connection(transaction=True) as tx:
        made = await tokens.create_token(tx, "web", ["task.read"], by="ann")
    callers = Callers(Store(app, at_once=1, in_line=0))
    burst = [asyncio.create_task(callers.find(f"Bearer {made.text}")) for _ in range(50)]
    await asyncio.sleep(0)  # all have asked
    for gone in burst[:5]:
        gone.cancel()
    found = await asyncio.gather(*burst, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in found[:5])
    assert {each.name for each in found[5:] if not isinstance(each, BaseException)} == {"web"}
    assert not [each for each in found[5:] if isinstance(each, BaseException)]


async def test_made_up_tokens_keep_no_known_caller_out(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have a line of their own: a flood of them is refused, and whoever came before is let in."""
    pool = await app.pool()
    async with pool.connection(transaction=True) as tx:
        made = await tokens.create_token(tx, "web", ["task.read"], by="ann")
    callers = Callers(Store(app))
    assert (await callers.find(f"Bearer {made.text}")).name == "web"
    monkeypatch.setattr(believing, "BELIEVED_SECONDS", 0.0)  # each is looked up anew
    flood = [
        asyncio.create_task(callers.find(f"Bearer {tokens.new_token()[2]}")) for _ in range(500)
    ]
    await asyncio.sleep(0)  # all have asked
    assert (await callers.find(f"Bearer {made.text}")).name == "web"
    found = await asyncio.gather(*flood, return_exceptions=True)
    assert {type(each) for each in found} == {Unauthenticated, Overloaded}


async def test_a_certificates_name_has_scopes_until_they_are_revoked(app: Mainspring) -> None:
    pool = await app.pool()
    san = "spiffe://example.org/web"
    async with pool.connection(transaction=True) as tx:
        made = await tokens.create_token(tx, "web", ["task.read"], san=san)
        with pytest.raises(InvalidSetting, match="has scopes already"):
            await tokens.create_token(tx, "web", ["admin"], san=san)
    assert made.text is None
    caller = await Callers(Store(app)).find(None, ["other", san])
    assert caller.scopes.texts == ("task.read",)
    async with pool.connection(transaction=True) as tx:
        await tokens.revoke_token(tx, made.row.id)
        await tokens.create_token(tx, "web", ["admin"], san=san)
    with pytest.raises(Unauthenticated):
        await Callers(Store(app)).find(None, ["other"])


def test_an_error_that_is_nobodys_business_is_told_by_an_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = answered(RuntimeError("password=secret"), "/s/M")
    assert (told.status, told.code) == ("INTERNAL", "internal")
    assert "secret" not in told.message
    assert caplog.records[-1].error_id in told.message  # type: ignore[attr-defined]
    away = answered(all_errors.NotDone("no connection to db.internal:5432"), "/s/M")
    assert (away.status, away.retry_seconds) == ("UNAVAILABLE", 1.0)
    assert "db.internal" not in away.message


def test_every_error_that_a_caller_can_mend_has_a_status() -> None:
    """Those that only code of the engine's own meets are our fault if they come through."""
    ours = {
        *(
            "EmbeddedServerError",
            "UnsupportedServer",
            "InvalidTask",
            "DuplicateTask",
            "InvalidKind",
        ),
        *("DuplicateKind", "InvalidStage", "DuplicateStage", "UnreadableEntity", "SaveRefused"),
        *("StageFailed", "InvalidAnswer", "PutOff"),  # of a stage's service, met by its worker
        *("StageLoop", "Fenced", "TaskFailed", "ResultTimeout", "MixedPool", "WorkerLost"),
        *("InvalidTrigger", "InvalidChunk", "UnknownFormat", "PromiseMisused", "PromiseAttribute"),
        *("OutcomeFailed", "InvalidDecision", "NoDecider", "InvalidProcess", "WorkTimeout"),
        *("ProcessFailed", "MissingExtra", "EndpointAway", "EventRefused", "ReceiverGone"),
        *("RetryAfter", "HelperDied"),  # said by a task to its worker, and of its process
    }
    kinds = [
        kind
        for kind in vars(all_errors).values()
        if isinstance(kind, type)
        and issubclass(kind, MainspringError)
        and kind is not MainspringError
    ]
    internal = set()
    for kind in kinds:
        error = kind.__new__(kind)
        Exception.__init__(error, "x")
        if answered(error, "/s/M").status in ("INTERNAL", "DEADLINE_EXCEEDED"):
            internal.add(kind.__name__)

    assert internal == ours
