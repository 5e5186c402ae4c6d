"""`mainspring worker` and `mainspring dev`."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import msgspec
import psycopg
import typer

from mainspring.app import Mainspring
from mainspring.assembly import declared
from mainspring.cli import log, show
from mainspring.cli.beside import other_dev
from mainspring.cli.child import Orders
from mainspring.cli.scraped import endpoint
from mainspring.cli.supervisor import Supervisor
from mainspring.cli.target import named, resolve
from mainspring.db.reconnecting import until_let_in
from mainspring.errors import InvalidSetting, MainspringError
from mainspring.kernel.lease.dead import declare_ended
from mainspring.kernel.settings import DEFAULT_POOL, WorkerSettings
from mainspring.loops import run_apart
from mainspring.server.processes import hold_address
from mainspring.server.settings import (
    DEFAULT_GRPC,
    DEFAULT_HTTP,
    ListenAddress,
    ServeSettings,
    checked,
)

WATCH_SECONDS = 0.5
_DEV_GRACE = 2.0
_DEV_LEASE = 5.0
_IGNORED = {"node_modules", "__pycache__", "site-packages", "venv"}

Place = Annotated[
    str | None,
    typer.Argument(metavar="MODULE:APP", help="The application; else MAINSPRING_APP."),
]
Url = Annotated[
    str | None,
    typer.Option("--url", help="The database; else the one that the application declares."),
]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="One JSON object a line.")]


def worker(
    place: Place = None,
    pool: Annotated[
        str | None, typer.Option(help="Serve the queues of this pool; else the application's.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, max=1000, help="Worker processes.")] = 1,
    concurrency: Annotated[int, typer.Option(help="Runs at once in each process.")] = 50,
    connections: Annotated[
        int, typer.Option(help="Connections of each process at most, besides those of its tasks.")
    ] = 6,
    helpers: Annotated[
        int | None,
        typer.Option(
            help='Processes beside each, for executor="process"; else one for each processor.'
        ),
    ] = None,
    drain: Annotated[bool, typer.Option("--drain", help="End when nothing is due.")] = False,
    lease: Annotated[float, typer.Option(help="Seconds until a silent worker is replaced.")] = 10.0,
    grace: Annotated[float, typer.Option(help="Seconds that runs have to end at a stop.")] = 30.0,
    history_days: Annotated[int, typer.Option(help="Days for which history is kept.")] = 30,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Serve gRPC and HTTP too, on this machine: see serve --help."),
    ] = False,
    grpc: Annotated[
        str | None, typer.Option("--grpc", help="With --serve: where gRPC listens.")
    ] = None,
    http: Annotated[
        str | None, typer.Option("--http", help="With --serve: where HTTP listens.")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Answer GET /metrics there, such as 127.0.0.1:9464."),
    ] = None,
    url: Url = None,
    log_level: LogLevel = "info",
    log_json: LogJson = False,
) -> None:
    """Run workers until a signal stops them.

    A second signal ends them at once. A process that dies is replaced; one that cannot work at all is
    given up after a few tries.
    """
    log.configure(log_level, json=log_json)
    settings: dict[str, Any] = {
        "concurrency": concurrency,
        "connections": connections,
        "helpers": helpers,
        "lease": lease,
        "grace": grace,
        "history_days": history_days,
    }
    WorkerSettings(
        **settings, pool=DEFAULT_POOL if pool is None else pool
    )  # refuses what is out of range
    place = named(place)
    app = resolve(url, place)
    pool = settings["pool"] = app.default_pool if pool is None else pool
    # Says here, once, if it is not there; a private one stays up meanwhile.
    _, pools = declared(app, run_apart(until_let_in(app.database)))
    _warn_of_pool(place, pool, sorted(pools))
    orders = Orders(place, settings, os.getpid(), drain, _passed_on(url), log_level, log_json)
    with ExitStack() as stack:
        stack.callback(app.close_sync)
        if serve or grpc or http:
            wanted = _serve_settings(app, grpc, http, processes, stack)
            orders = msgspec.structs.replace(orders, serve=wanted)
        if metrics is not None:
            asked = endpoint(metrics, app.database_sync().url)
            folder, address = stack.enter_context(asked)
            orders = msgspec.structs.replace(orders, counts=str(folder))
            show.say(f"metrics at http://{address}/metrics")
        code = Supervisor(
            orders, processes, grace=grace, declare_dead=_declaring_dead(app, pool, lease)
        ).run()
    raise typer.Exit(code)


def _serve_settings(
    app: Mainspring, grpc: str | None, http: str | None, processes: int, stack: ExitStack
) -> ServeSettings:
    """Where the workers serve; the ports are kept while their processes come and go."""
    import mainspring.server.door as _door  # noqa: F401  # names its extra before anything begins

    if grpc is None and http is None:
        grpc, http = DEFAULT_GRPC, DEFAULT_HTTP
    settings = checked(ServeSettings(grpc=grpc, http=http, processes=processes))
    settings = msgspec.structs.replace(
        settings,
        grpc=hold_address(stack, settings.grpc_address),
        http=hold_address(stack, settings.http_address),
        shares_port=True,
        token_file=str(app.directory.absolute() / "token"),
    )
    for name, address in (("gRPC", settings.grpc), ("HTTP", settings.http)):
        if address is not None:
            show.say(f"serving {name} at {address}")
    return settings


def dev(
    place: Place = None,
    concurrency: Annotated[int, typer.Option(help="Runs at once.")] = 50,
    console: Annotated[
        bool, typer.Option("--console/--no-console", help="Serve the console on this machine.")
    ] = True,
    url: Url = None,
    log_level: LogLevel = "info",
) -> None:
    """Run a worker and start it anew when a source file changes, and show the console.

    It works on the database of --url, else on the one that the application declares, else on that of
    MAINSPRING_URL, and where none is named on a private one in .mainspring.
    """
    log.configure(log_level, json=False)
    place = named(place)
    app = _app_for_dev(url, place)
    database = run_apart(until_let_in(app.database))
    show.say(f"{database.shown}: {database.url}" if database.private_in else database.shown)
    settings = {"concurrency": concurrency, "grace": _DEV_GRACE, "lease": _DEV_LEASE}
    orders = Orders(place, settings, os.getpid(), redirected=_passed_on(url), log_level=log_level)
    with ExitStack() as stack:
        stack.callback(app.close_sync)
        if (other := other_dev(stack, Path.cwd())) is not None:
            show.complain(
                f"another mainspring dev runs in this directory (process {other}): both run your tasks; "
                "stop one of them"
            )
        if console and _can_serve():
            orders = msgspec.structs.replace(orders, serve=_dev_console(app, stack))
        declare_dead = _declaring_dead(app, app.default_pool, _DEV_LEASE)
        supervisor = Supervisor(
            orders, 1, grace=_DEV_GRACE, declare_dead=declare_dead, gives_up=False
        )
        code = supervisor.run(each_turn=SourceWatch(Path.cwd()).changed)
    raise typer.Exit(code)


def _can_serve() -> bool:
    return all(find_spec(name) for name in ("grpc", "starlette", "uvicorn"))


def _dev_console(app: Mainspring, stack: ExitStack) -> ServeSettings:
    """The console beside the worker, whose link logs in once; the usual port, if nobody has it."""
    from mainspring.server.console import log_in_path, new_code

    try:
        http = hold_address(stack, ListenAddress(DEFAULT_HTTP))
    except InvalidSetting:
        http = hold_address(stack, ListenAddress("127.0.0.1:0"))
    code = new_code()
    link = f"http://{http}{log_in_path(code)}"
    show.say(f"console: {link}")
    if sys.stdout.isatty() and (os.environ.get("DISPLAY") or sys.platform == "darwin"):
        import webbrowser

        webbrowser.open(link)
    return ServeSettings(
        grpc=None,
        http=http,
        console_code=code,
        shares_port=True,
        token_file=str(app.directory.absolute() / "token"),
    )


def _app_for_dev(url: str | None, place: str) -> Mainspring:
    """The application, or, while its module cannot be imported, one on the same database."""
    try:
        return resolve(url, place)
    except InvalidSetting as error:
        show.complain(str(error))
        return Mainspring(url)


def _passed_on(url: str | None) -> bool:
    """Hand an address to the worker processes; whether there is one."""
    if url is not None:
        os.environ["MAINSPRING_URL"] = url
    return url is not None


def _warn_of_pool(place: str, pool: str, pools: Sequence[str]) -> None:
    if pool not in pools:
        text = (
            f"nothing that {place} declares is in pool {pool!r}: this worker has none of it to run"
        )
        facts = {"pool": pool, "pools": pools, "text": text}
        logging.getLogger("mainspring").warning("worker.pool_unused", extra=facts)


def _declaring_dead(
    app: Mainspring, pool: str, lease: float
) -> Callable[[UUID, bool], bool | None]:
    """How the supervisor declares a worker dead; if it cannot, others will in a lease time."""

    def declare_dead(worker_id: UUID, fenced: bool) -> bool | None:
        try:
            database = app.database_sync()
            return declare_ended(database, pool=pool, dead_id=worker_id, lease=lease, fenced=fenced)
        except (MainspringError, psycopg.Error, OSError) as error:
            facts = {"worker": str(worker_id), "error": str(error)}
            logging.getLogger("mainspring").warning("worker.not_buried", extra=facts)
            return None

    return declare_dead


class SourceWatch:
    """Knows when a source file below a directory has changed, by looking now and then."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen = dict(self._look())
        self._next = 0.0

    def changed(self) -> bool:
        """Whether a file has come, gone or changed since the last look."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + WATCH_SECONDS
        before, self._seen = self._seen, dict(self._look())
        return before != self._seen

    def _look(self) -> Iterator[tuple[str, int]]:
        for folder, folders, files in os.walk(self._directory):
            folders[:] = [f for f in folders if not f.startswith(".") and f not in _IGNORED]
            for name in files:
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    try:
                        yield path, os.stat(path).st_mtime_ns
                    except OSError:
                        continue  # gone between the two looks
