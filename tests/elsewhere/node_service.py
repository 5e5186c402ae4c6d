"""The example's stage in Node, with its packages from the registry that npm is told of, kept in a cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "remote"


@cache
def node_command() -> tuple[list[str] | None, str]:
    """How the example's service is started, or why it cannot be."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None, "node and npm are not installed"
    wanted = (EXAMPLE / "package.json").read_bytes()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainspring-tests"
    place = home / f"node-{hashlib.sha256(wanted).hexdigest()[:12]}"
    if not (place / "done").exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_bytes(wanted)
        command = [
            npm,
            "install",
            "--no-audit",
            "--no-fund",
            "--no-package-lock",
            "--ignore-scripts",
        ]
        try:
            done = subprocess.run(
                command, cwd=place, capture_output=True, text=True, timeout=90, check=False
            )
        except subprocess.TimeoutExpired:
            return None, "npm's registry did not answer"
        if done.returncode:
            return None, f"npm cannot install the example's packages: {done.stderr.strip()[-200:]}"
        (place / "done").touch()
    shutil.copy(EXAMPLE / "service.js", place / "service.js")
    return [node, str(place / "service.js")], ""
