"""The client needs grpcio and protobuf, and nothing else of the engine's."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("asyncpg", "psycopg", "msgspec", "uvloop", "cronsim", "typer", "google.rpc")
PROGRAM = f"""
import sys
import mainspring.client
assert "grpc" not in sys.modules
from mainspring.client import AsyncClient, Client, RemoteError
Client("127.0.0.1:1").close()
print([name for name in {HEAVY} if name in sys.modules])
print([name for name in sys.modules if name.startswith("mainspring.") and name.count(".") == 1])
"""


def test_importing_the_client_imports_no_driver_and_no_layer() -> None:
    said = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True).splitlines()

    assert said[0] == "[]"
    assert set(eval(said[1])) == {
        f"mainspring.{name}" for name in ("client", "errors", "events", "lazily", "phrases", "v1")
    }
