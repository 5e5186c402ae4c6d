"""Copies of what is installed, as a folder of modules of their own: for other places, other accounts."""

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import mainspring
from mainspring.embedded import binaries

SOURCE = Path(mainspring.__file__).resolve().parents[1]

PREFIX = Path(sys.base_prefix).resolve()
BASE_PYTHON = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def run(
    modules: Path,
    *arguments: str | Path,
    user: pwd.struct_passwd | None = None,
    environment: Mapping[str, str] = {},
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run the interpreter, of no environment, with a folder of modules; in its parent.

    Another user may not be able to walk to the interpreter, so it gets the open directory.
    """
    fd = os.open(PREFIX, os.O_RDONLY | os.O_DIRECTORY)
    prefix = Path(f"/proc/self/fd/{fd}") if sys.platform == "linux" else PREFIX
    home = modules.parent
    try:
        return subprocess.run(
            [prefix / BASE_PYTHON.relative_to(PREFIX), "-W", "error", *arguments],
            cwd=home,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "PYTHONHOME": str(prefix),
                "LD_LIBRARY_PATH": str(prefix / "lib"),  # of libpython
                **environment,
                "PYTHONPATH": str(modules),
            },
            pass_fds=[fd],
            user=user and user.pw_uid,
            group=user and user.pw_gid,
            extra_groups=[] if user else None,
            capture_output=True,
            text=True,
            timeout=200,
            **options,
        )
    finally:
        os.close(fd)


def closure(*wanted: str) -> dict[str, Distribution]:
    """What pip brings for requirements such as `mainspring[cli]`, those themselves included."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    left = list(wanted)
    while left:
        name, extras = _split(left.pop())
        try:
            found.setdefault(name, distribution(name))
        except PackageNotFoundError:
            continue  # of another platform
        for extra in ("", *extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                left += _required(found[name], extra)
    return found


def _split(requirement: str) -> tuple[str, list[str]]:
    match = re.match(r"([\w.-]+)\s*(?:\[([^]]*)\])?", requirement)
    assert match, requirement
    name = re.sub(r"[-_.]+", "-", match[1]).lower()
    return name, [extra.strip() for extra in (match[2] or "").split(",") if extra.strip()]


def _required(found: Distribution, extra: str) -> list[str]:
    """The requirements of a distribution, or those that one of its extras adds."""
    chosen = []
    for line in found.requires or []:
        requirement, _, marker = line.partition(";")
        asked = re.search(r"""extra\s*==\s*['"]([^'"]+)['"]""", marker)
        if (asked[1] if asked else "") == extra:
            chosen.append(requirement.strip())
    return chosen


def install(into: Path, *wanted: str) -> None:
    """Copy Mainspring and what it needs to a folder of modules, with no link back."""
    for name, found in closure(*wanted).items():
        for file in found.files or []:
            source = Path(str(found.locate_file(file)))
            if name == "mainspring" and source.suffix == ".pth":
                continue
            if ".." in file.parts or "pginstall" in file.parts or "include" in file.parts:
                continue  # console scripts, the wheel's second server, headers
            if source.is_file() and source.suffix != ".a":
                target = into / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)  # with its time, so that what is compiled counts
    for package in ("mainspring", "mainspring_cli", "mainspring_django", "mainspring_pytest"):
        shutil.copytree(SOURCE / package, into / package, dirs_exist_ok=True)


def copy_programs(place: Path, *, linked: bool = False) -> Path:
    """The wheel's programs again, as files or as links to a store there (uv can install so)."""
    package = binaries.binaries().parents[1]
    for source in (package / "pginstall18", package.parent / f"{package.name}.libs"):
        target = place / "lib" / source.relative_to(package.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not linked:
            shutil.copytree(source, target)
            continue
        store = shutil.copytree(source, place / "store" / source.relative_to(package.parent))
        for file in store.rglob("*"):
            if file.is_file():
                link = target / file.relative_to(store)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(file)
    return place / "lib" / package.name / "pginstall18" / "bin"
