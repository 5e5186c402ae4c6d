"""One server process: served here, or as one of several that `mainspring serve --processes` starts."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from mainspring.cli import codes, log, show
from mainspring.cli.child import die_with
from mainspring.cli.target import resolve
from mainspring.loops import run_here
from mainspring.server.settings import ServeSettings

if TYPE_CHECKING:
    from mainspring.app import Mainspring


class ServeOrders(msgspec.Struct, frozen=True):
    """What a server process is told by its parent."""

    place: str | None
    settings: ServeSettings
    parent: int
    redirected: bool = False  # to the database of MAINSPRING_URL
    log_level: str = "info"
    log_json: bool = False


async def serve_here(app: Mainspring, settings: ServeSettings, *, told: bool) -> None:
    """Serve in this process until a signal comes; a second one ends it at once."""
    from mainspring.server.door import Door

    stop = asyncio.Event()

    def signalled() -> None:
        if stop.is_set():
            os._exit(codes.INTERRUPTED)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    async with app:
        door = Door(app, settings)
        addresses = await door.start()
        if told:
            tell(addresses, 1)
            if door.console_path is not None and addresses["HTTP"].rpartition(":")[2].isdigit():
                scheme = "https" if settings.has_tls else "http"
                show.say(f"console: {scheme}://{addresses['HTTP']}{door.console_path}")
        facts = {f"{name.lower()}_address": address for name, address in addresses.items()}
        logging.getLogger("mainspring").info("serve.started", extra=facts)
        await stop.wait()
        await door.stop()
    log.flush()
    os._exit(codes.OK)  # gRPC's own threads may hang at the end of the interpreter


def tell(addresses: Mapping[str, str | None], processes: int) -> None:
    """Say where it listens, once it does."""
    more = f" in {processes} processes" if processes > 1 else ""
    for name, address in addresses.items():
        if address is not None:
            show.say(f"serving {name} at {address}{more}")


def main(orders: ServeOrders) -> None:
    """Serve, and leave with a code that says why."""
    die_with(orders.parent)
    log.configure(orders.log_level, json=orders.log_json)
    try:
        url = os.environ["MAINSPRING_URL"] if orders.redirected else None
        run_here(serve_here(resolve(url, orders.place), orders.settings, told=False))
    except Exception as error:
        code = codes.code_of(error)
        if code is None:
            logging.getLogger("mainspring").exception("serve.failed")
        else:
            show.complain(str(error))
        log.flush()
        os._exit(code or codes.PROBLEM)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=ServeOrders))
