"""`mainspring serve`: the door for other languages."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import Annotated

import msgspec
import typer

from mainspring.cli import log
from mainspring.cli.serve_child import ServeOrders, serve_here, tell
from mainspring.cli.target import resolve
from mainspring.cli.worker import LogJson, LogLevel, Url
from mainspring.loops import run_here
from mainspring.server.processes import ServerProcesses, hold_address
from mainspring.server.settings import (
    DEFAULT_GRPC,
    DEFAULT_HTTP,
    ServeSettings,
    checked,
)

Place = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODULE:APP]", help="The application; without it only names are known."
    ),
]


def serve(
    place: Place = None,
    grpc: Annotated[
        str | None,
        typer.Option(
            "--grpc", help=f"Where gRPC listens: host:port or unix:/path ({DEFAULT_GRPC})."
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option("--http", help=f"Where HTTP listens ({DEFAULT_HTTP}); with neither, both do."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which a proxy on this machine asks for it over HTTP."),
    ] = None,
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
    """Serve all of it over gRPC and HTTP to other languages.

    It listens on this machine alone unless told otherwise; any other address needs TLS, and every caller
    a token (mainspring tokens create) or a client certificate.
    """
    log.configure(log_level, json=log_json)
    import mainspring.server.door as _server  # noqa: F401  # names its extra before anything begins

    app = resolve(url, place)
    if grpc is None and http is None:
        grpc, http = DEFAULT_GRPC, DEFAULT_HTTP
    settings = checked(
        ServeSettings(
            grpc=grpc,
            http=http,
            hosts=tuple(allow_host or ()),
            tls_cert=tls_cert,
            tls_key=tls_key,
            client_ca=client_ca,
            no_auth=no_auth,
            processes=processes,
        )
    )
    if settings.is_local and not no_auth:
        chosen = token_file or str(app.directory.absolute() / "token")
        settings = msgspec.structs.replace(settings, token_file=chosen)
    if processes == 1:
        run_here(serve_here(app, settings, told=True))
        return
    if url is not None:
        os.environ["MAINSPRING_URL"] = url
    with ExitStack() as stack:
        shared = msgspec.structs.replace(
            settings,
            grpc=hold_address(stack, settings.grpc_address),
            http=hold_address(stack, settings.http_address),
            shares_port=True,
        )
        orders = ServeOrders(place, shared, os.getpid(), url is not None, log_level, log_json)
        text = msgspec.json.encode(orders).decode()
        tell({"gRPC": shared.grpc, "HTTP": shared.http}, processes)
        command = [sys.executable, "-m", "mainspring.cli.serve_child", text]
        raise typer.Exit(ServerProcesses(command, processes).run())
