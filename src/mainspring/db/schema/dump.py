"""The migrated schema as text: `python -m mainspring.db.schema.dump` prints what schema.sql must be.

A private server is migrated from nothing and dumped by its own pg_dump. What differs from run to run
or from server to server is left out, so that the text changes only when the schema does.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from mainspring.db.database import probe
from mainspring.db.schema import migrate
from mainspring.embedded.binaries import binaries
from mainspring.embedded.server import EmbeddedServer


def dump(url: str, *, bin_dir: Path | None = None) -> str:
    """The schema `mainspring` of a database, normalised."""
    program = str(binaries(bin_dir) / "pg_dump")
    options = ["--schema-only", "--schema=mainspring", "--no-owner", "--no-privileges"]
    done = subprocess.run([program, *options, url], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pg_dump failed: {done.stderr.strip()}")
    return normalised(done.stdout)


def normalised(text: str) -> str:
    """The dump without its header, its settings, its comments and its daily partitions."""
    kept = []
    for statement in re.split(r"\n{2,}(?=--\n)", text):
        body = "\n".join(line for line in statement.splitlines() if not _is_noise(line)).strip()
        if body and not re.search(r"\bhistory_\d{4}_\d\d_\d\d", body):
            kept.append(re.sub(r"\n{2,}", "\n", body))
    return "\n\n".join(kept) + "\n"


def _is_noise(line: str) -> bool:
    return line.startswith(
        ("--", "SET ", "SELECT pg_catalog.set_config", "\\restrict", "\\unrestrict")
    )


def main() -> None:
    """Migrate a private server from nothing and print its schema."""
    with tempfile.TemporaryDirectory(prefix="mainspring-dump-") as directory:
        server = EmbeddedServer(Path(directory) / "server", settings={"fsync": "off"})
        server.start()
        try:
            server.create_database("mainspring")
            url = server.url("mainspring")
            migrate.migrate(asyncio.run(probe(url)))
            sys.stdout.write(dump(url))
        finally:
            server.stop(fast_seconds=2)


if __name__ == "__main__":
    main()
