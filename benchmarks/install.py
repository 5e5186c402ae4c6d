"""Install each peer in an environment of its own under `.bench/`, once.

Plain venv and pip, or uv where it is there; npm for the one on Node. A peer that cannot be
installed raises NotInstallable with the reason, which becomes its record.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from glob import glob
from pathlib import Path

from benchmarks.catalog import System

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".bench"
PYENV = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
INSTALL_SECONDS = 600
VERSION = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


class NotInstallable(Exception):
    """A system cannot be had on this machine; the message says why."""


def command(system: System, say: Callable[[str], None] = lambda line: None) -> list[str]:
    """What starts an adapter of this system, installed first where it must be."""
    if system.store == "redis":
        redis_server()
    if system.runtime == "node":
        return ["node", str(node_home(system, say) / "adapter.js")]
    return [str(python_of(system, say)), "-m", "benchmarks.adapter", system.name]


def version(system: System) -> str:
    """The installed version, as the record and the report show it."""
    if system.name == "bare":
        return "asyncpg " + python_version(Path(sys.executable), "asyncpg")
    if system.name == "mainspring":
        return commit(ROOT)
    if system.runtime == "node":
        path = HOME / "node" / system.name / "node_modules" / "graphile-worker" / "package.json"
        return str(json.loads(path.read_text())["version"])
    return python_version(
        venv(system) / "bin" / "python", system.packages[0].split("=")[0].split("[")[0]
    )


def commit(root: Path) -> str:
    """The commit of a checkout, and whether what runs is that commit."""
    git = ["git", "-C", str(root)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if head.returncode:
        return "working tree"
    code = ["src", "benchmarks"]
    clean = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", *code], capture_output=True)
    return f"commit {head.stdout.strip()}{'' if clean.returncode == 0 else ' with changes'}"


def python_version(python: Path, package: str) -> str:
    asked = subprocess.run([str(python), "-c", VERSION, package], capture_output=True, text=True)
    return asked.stdout.strip() or "unknown"


@cache
def redis_server() -> str:
    """Redis' program, from this machine or unpacked from Debian's packages."""
    finder = [sys.executable, str(ROOT / "tests" / "servers.py"), "redis"]
    found = subprocess.run(finder, capture_output=True, text=True)
    if found.returncode:
        reason = (found.stderr.strip().splitlines() or ["no reason given"])[0]
        raise NotInstallable(f"not installable: needs redis-server: {reason[:200]}")
    return found.stdout.strip()


def venv(system: System) -> Path:
    return HOME / "venvs" / system.name


def python_of(system: System, say: Callable[[str], None]) -> Path:
    if not system.packages:
        return Path(sys.executable)
    home = venv(system)
    wanted = fingerprint(system)
    stamp = home / "installed"
    if not stamp.exists() or stamp.read_text() != wanted:
        base = interpreter(system.python)
        say(f"installing {system.name} ...")
        shutil.rmtree(home, ignore_errors=True)
        home.parent.mkdir(parents=True, exist_ok=True)
        uv = shutil.which("uv")
        if uv:
            call([uv, "venv", "--quiet", "--python", base, str(home)])
            install = [uv, "pip", "install", "--quiet", "--python", str(home / "bin" / "python")]
        else:
            call([base, "-m", "venv", str(home)])
            install = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        call([*install, *system.packages])
        stamp.write_text(wanted)
    return home / "bin" / "python"


def interpreter(least: tuple[int, int]) -> str:
    """A Python of at least this version: ours, or another one that really starts."""
    if sys.version_info[:2] >= least:
        return sys.executable
    for minor in range(least[1], least[1] + 4):
        name = f"python{least[0]}.{minor}"
        places = [shutil.which(name), *glob(f"{PYENV}/versions/*/bin/{name}")]
        for found in filter(None, places):  # a shim of pyenv may be there and not start
            if subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
                return found
    raise NotInstallable(f"not installable: needs Python {least[0]}.{least[1]}")


def node_home(system: System, say: Callable[[str], None]) -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise NotInstallable("not installable: needs Node 18 and npm")
    found = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    if int(found.lstrip("v").split(".")[0]) < 18:
        raise NotInstallable(f"not installable: needs Node 18, found {found}")
    home = HOME / "node" / system.name
    wanted = fingerprint(system)
    stamp = home / "installed"
    if not stamp.exists() or stamp.read_text() != wanted:
        say(f"installing {system.name} ...")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        (home / "package.json").write_text('{"name": "peer", "private": true}\n')
        call(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(home), *system.packages])
        stamp.write_text(wanted)
    # Node looks for packages beside the script, so the script is brought to them.
    source = Path(__file__).parent / "systems" / f"{system.name}.js"
    shutil.copyfile(source, home / "adapter.js")
    return home


def fingerprint(system: System) -> str:
    return hashlib.sha256(" ".join(system.packages).encode()).hexdigest()[:16]


def call(arguments: list[str]) -> None:
    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=INSTALL_SECONDS, env=os.environ
        )
    except subprocess.TimeoutExpired:
        raise NotInstallable(f"not installable: no end after {INSTALL_SECONDS} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        errors = [line for line in lines if "error" in line.lower()] or lines
        raise NotInstallable(f"not installable: {errors[-1][:300]}")
