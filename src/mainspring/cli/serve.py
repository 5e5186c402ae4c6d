"""`mainspring serve`: the door for other languages."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import msgspec
import typer

from mainspring.cli import log, show
from mainspring.cli.serve_child import ServeOrders, serve_here
from mainspring.cli.target import resolve
from mainspring.cli.worker import LogJson, LogLevel, Url
from mainspring.loops import run_here
from mainspring.server.extra import needing_serve
from mainspring.server.processes import ServerProcesses, hold_port
from mainspring.server.settings import DEFAULT_ADDRESS, ServeSettings, checked

Place = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:APP]", help="The application; without it only names are known."
    ),
]


def serve(
    place: Place = None,
    address: Annotated[
        str, typer.Option("--grpc", help="host:port, or unix:/path.")
    ] = DEFAULT_ADDRESS,
    tls_cert: Annotated[str | None, typer.Option(help="The server's certificate, PEM.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Its key, PEM.")] = None,
    client_ca: Annotated[
        str | None, typer.Option(help="Who signs client certificates, PEM: every client needs one.")
    ] = None,
    processes: Annotated[int, typer.Option(help="Server processes.")] = 1,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask nobody for a token; on this machine only.")
    ] = False,
    token_file: Annotated[
        str | None,
        typer.Option(help="Where this machine's token is; else .mainspring/token, made if absent."),
    ] = None,
    url: Url = None,
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Serve tasks, params, processes and states over gRPC.

    It listens on this machine alone unless told otherwise; any other address needs TLS, and every caller
    a token (mainspring tokens create) or a client certificate.
    """
    log.configure(log_level, json=log_json)
    with needing_serve():
        import mainspring.server.grpc.server as _server  # noqa: F401  # says so before anything begins
    app = resolve(url, place)
    settings = checked(ServeSettings(address, tls_cert, tls_key, client_ca, no_auth, processes))
    if settings.is_local and not no_auth:
        chosen = token_file or str(app.directory.absolute() / "token")
        settings = msgspec.structs.replace(settings, token_file=chosen)
    if processes == 1:
        run_here(serve_here(app, settings, told=True))
        return
    if url is not None:
        os.environ["MAINSPRING_URL"] = url
    with hold_port(settings.host, settings.port) as held:
        host = settings.address.rpartition(":")[0]
        shared = msgspec.structs.replace(
            settings, address=f"{host}:{held.getsockname()[1]}", shares_port=True
        )
        orders = ServeOrders(place, shared, os.getpid(), url is not None, log_level, log_json)
        text = msgspec.json.encode(orders).decode()
        show.say(f"serving gRPC at {shared.address} in {processes} processes")
        command = [sys.executable, "-m", "mainspring.cli.serve_child", text]
        raise typer.Exit(ServerProcesses(command, processes).run())
