"""By which proof a service is called: TLS, certificates of both sides, tokens, refusals (S10)."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from services import Service
from test_remote_stage import declare

from mainspring import Mainspring
from mainspring.errors import InvalidSetting
from mainspring.testing import wait_until
from stages import Stages


class Papers:
    """Certificates of one authority, as files."""

    def __init__(self, place: Path) -> None:
        authority = trustme.CA()
        self.ca = str(place / "ca.pem")
        authority.cert_pem.write_to_path(self.ca)
        for name in ("localhost", "worker"):
            issued = authority.issue_cert(name)
            issued.private_key_pem.write_to_path(str(place / f"{name}.key"))
            issued.cert_chain_pems[0].write_to_path(str(place / f"{name}.pem"))
        self.place = place

    def pem(self, name: str) -> str:
        return str(self.place / f"{name}.pem")

    def key(self, name: str) -> str:
        return str(self.place / f"{name}.key")


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path)


async def test_tls_with_certificates_of_both_sides_and_a_token(
    stages: Stages, papers: Papers
) -> None:
    """S10: mTLS and a token."""
    service = Service(
        CERT=papers.pem("localhost"), KEY=papers.key("localhost"), CA=papers.ca, TOKEN="t-1"
    )
    service.start()
    try:
        declare(
            stages,
            f"grpcs://localhost:{service.port}",
            ca=papers.ca,
            cert=papers.pem("worker"),
            key=papers.key("worker"),
            token="t-1",
        )
        await stages.install()
        stages.add(1, title="a", price=4)
        await stages.run()
    finally:
        service.end()
    assert stages.listing()["rank"] == 8


@pytest.mark.parametrize("lacks", ["token", "certificate", "authority"])
async def test_without_proof_the_gate_closes_and_nothing_is_counted(
    stages: Stages, papers: Papers, tmp_path: Path, lacks: str
) -> None:
    """S10: an authentication that fails is no entity's fault; the reason shows no secret."""
    service = Service(
        CERT=papers.pem("localhost"), KEY=papers.key("localhost"), CA=papers.ca, TOKEN="t-1"
    )
    service.start()
    proof = {"ca": papers.ca, "cert": papers.pem("worker"), "key": papers.key("worker")}
    if lacks == "certificate":
        proof = {"ca": papers.ca}
    if lacks == "authority":
        trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
        proof["ca"] = str(tmp_path / "other.pem")
    token = "wrong-secret" if lacks == "token" else "t-1"
    try:
        declare(stages, f"grpcs://localhost:{service.port}", token=token, ask=False, **proof)
        await stages.install()
        stages.add(1, title="a", price=4)
        async with stages.working() as worker:
            endpoint = worker.buffer.queues["listing/rank"].settings.endpoint
            await wait_until(lambda: endpoint.is_away, 60)
            reason = endpoint.reason
    finally:
        service.end()
    assert "wrong-secret" not in reason
    if lacks == "token":
        assert reason == "UNAUTHENTICATED: the token is missing or not the right one"
    visit = stages.visit("listing/rank")
    assert (visit["attempt"], visit["crashes"]) == (0, 0)
    assert service.count("Process") == 0


@pytest.mark.parametrize(
    ("address", "settings", "text"),
    [
        ("http://photos:1", {}, "must be such as grpcs://host:443 or grpc://127.0.0.1:7500"),
        ("grpc://photos:1", {}, "must be called over TLS"),
        (
            "grpc://photos:1",
            {"insecure": True, "token": "t"},
            "is not sent to 'photos' without TLS",
        ),
        ("grpcs://photos:443", {"cert": "a.pem"}, "cert and key of stage 'rank' go together"),
        ("grpc://127.0.0.1:1", {"ca": "a.pem"}, "are for TLS: use grpcs://"),
        ("grpcs://photos:443", {"ask": "yes"}, "must be True, False or a function"),
        ("grpcs://photos:443", {"batch": 0}, "batch of stage 'rank' must be 1 to 1000"),
        ("grpcs://photos:99999", {}, "must be such as"),
        ("grpcs://photos:443", {"entity": dict}, "must be a class that protobuf generated"),
    ],
)
def test_a_declaration_that_is_none_is_refused(address: str, settings: dict, text: str) -> None:
    kind = Mainspring().entities("listing", table="public.listing", key="id")
    with pytest.raises(InvalidSetting, match=text):
        kind.remote_stage("rank", address, **settings)


def test_an_address_shows_no_secret() -> None:
    kind = Mainspring().entities("listing", table="public.listing", key="id")
    stage = kind.remote_stage("rank", "grpcs://photos:443", token="secret")
    assert "secret" not in repr(stage)
