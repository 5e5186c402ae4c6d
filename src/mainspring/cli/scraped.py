"""Where `mainspring worker --metrics` answers: counters of its processes, gauges of the database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from mainspring.errors import DatabaseUnavailable, InvalidSetting, MainspringError
from mainspring.hooks.counters import lines_of, read_counts
from mainspring.host import DatabaseHost
from mainspring.loops import run_apart

CONTENT = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@contextmanager
def endpoint(address: str, url: str | None) -> Iterator[tuple[Path, str]]:
    """Answer GET /metrics there; gives the directory for the counts of processes, and the address.

    `url`: the database whose gauges are shown too. While it is away the counters are shown alone.
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise InvalidSetting(f"--metrics takes an address such as 127.0.0.1:9464, got {address!r}")
    with TemporaryDirectory(prefix="mainspring.metrics.") as directory:
        folder = Path(directory)
        handler = _handler(lambda: _text(folder, url))
        try:
            server = ThreadingHTTPServer((host.strip("[]") or "127.0.0.1", int(port)), handler)
        except OSError as error:
            raise InvalidSetting(f"--metrics cannot listen at {address}: {error}") from None
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield folder, f"{server.server_address[0]!s}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def _text(folder: Path, url: str | None) -> str:
    counters = lines_of(map(read_counts, sorted(folder.glob("*.json"))))
    return "\n".join([*_gauges(url), *counters, "# EOF"]) + "\n"


def _gauges(url: str | None) -> list[str]:
    if url is None:
        return []
    try:
        text = run_apart(_asked(url))
    except (DatabaseUnavailable, MainspringError, OSError):
        return []
    return text.removesuffix("# EOF\n").splitlines()


async def _asked(url: str) -> str:
    async with DatabaseHost(url) as host:
        return await host.metrics()


def _handler(text: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Scrape(BaseHTTPRequestHandler):
        timeout = 10.0

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "only /metrics is here")
                return
            body = text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """A scrape is no event."""

    return Scrape
