"""A copy of PostgreSQL's programs that every account can run, for where their own place is closed.

Usually a virtual environment below a home that only root enters. The programs are linked to libraries
that the wheel keeps in a folder of its own beside its package, so both are copied, one to the other as
they were. What is in the cache is run: so a copy is named by its content, appears whole, and is taken
only from a directory that nobody else can write to.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
from pathlib import Path

from mainspring.embedded import private, process
from mainspring.errors import EmbeddedServerError

log = logging.getLogger("mainspring")

CACHE = Path("/var/cache/mainspring")  # of binaries; root's own, and nothing takes old files out
LOCK_SECONDS = 120.0  # for another process that copies meanwhile
UNUSED = (".a", ".h")  # for compiling against the server


def copied(bin_dir: Path) -> Path:
    """The directory of programs again, where every account can run them."""
    cache = CACHE if os.geteuid() == 0 else Path.home() / ".cache" / "mainspring"
    files = _files(bin_dir.parent)
    try:
        _make(cache)
        copy = cache / f"postgres-{_digest(files)}"
        with process.locked(cache / "lock", LOCK_SECONDS):
            if not _whole(copy, files):
                log.warning(
                    "embedded.binaries_copied", extra={"tree": str(bin_dir), "copy": str(copy)}
                )
                _copy(files, cache / "new", copy)
    except OSError as error:
        raise EmbeddedServerError(
            f"cannot copy the programs of PostgreSQL from {bin_dir} to {cache} ({error}); "
            "make room there, or install Mainspring where every user may read"
        ) from error
    return copy / "package" / "tree" / bin_dir.name


def _files(tree: Path) -> dict[Path, Path]:
    """What is copied, by its path in the copy. Links are followed: they may lead to a closed place."""
    package = tree.resolve().parent
    libraries = f"{package.name}.libs"  # the programs look for it two directories above their tree
    places = {Path("package/tree"): tree, Path(libraries): package.parent / libraries}
    found: dict[Path, Path] = {}
    for place, source in places.items():
        for folder, _, names in os.walk(source, followlinks=True):
            for name in sorted(names):
                file = Path(folder, name)
                if file.is_file() and file.suffix not in UNUSED:
                    found[place / file.relative_to(source)] = file
    return found


def _digest(files: dict[Path, Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        with files[path].open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path}\0{content}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _make(cache: Path) -> None:
    """Make the cache, or refuse one that somebody else could have written to."""
    try:
        cache.mkdir(parents=True)
    except FileExistsError:
        refuse_if_foreign(cache)
    cache.chmod(0o755)  # whatever the umask is


def refuse_if_foreign(cache: Path) -> None:
    """Raise if another user can put files there, or put another directory in its place."""
    for path in (cache, *cache.resolve().parents):
        seen = path.lstat()
        # Above it, as in /tmp: others make files of their own but take none away.
        kept = path != cache and seen.st_mode & stat.S_ISVTX
        is_own = stat.S_ISDIR(seen.st_mode) and seen.st_uid in (0, os.geteuid())
        if not is_own or (private.others_write(seen) and not kept):
            raise EmbeddedServerError(
                f"another user can write to {path}, and programs in {cache} are run; "
                f"look at who made it, then remove {cache} or take the others' rights away"
            )


def _whole(copy: Path, files: dict[Path, Path]) -> bool:
    """Whether all is there; a loss of power, or somebody who tidied up, may have taken something."""
    try:
        return all((copy / p).stat().st_size == file.stat().st_size for p, file in files.items())
    except FileNotFoundError:
        return False


def _copy(files: dict[Path, Path], new: Path, copy: Path) -> None:
    for left_over in (new, copy):
        shutil.rmtree(left_over, ignore_errors=True)
    for path, source in files.items():
        target = new / path
        for folder in reversed(target.relative_to(new).parents):
            (new / folder).mkdir(exist_ok=True)
            (new / folder).chmod(0o755)
        shutil.copyfile(source, target)
        target.chmod(0o755 if source.stat().st_mode & stat.S_IXUSR else 0o644)
    new.rename(copy)  # when whole: whoever is killed before leaves no half
