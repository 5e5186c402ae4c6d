"""A stage in Go, built once into a cache, by the Go that is there and the modules that it can fetch."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent / "go_service"
PROTOS = Path(__file__).parents[2] / "src"
FILES = ("mainspring/v1/body.proto", "mainspring/v1/stage_service.proto")
PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.10",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1",
)


@cache
def go_command() -> tuple[list[str] | None, str]:
    """How the service is started, or why it cannot be."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        return None, "Go is not installed"
    made_of = b"".join(
        path.read_bytes() for path in (*sorted(SOURCE.iterdir()), *(PROTOS / f for f in FILES))
    )
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainspring-tests"
    place = home / f"go-{hashlib.sha256(made_of).hexdigest()[:12]}"
    program = place / "stage"
    if not program.exists():
        try:
            _build(go, place)
        except subprocess.CalledProcessError as error:
            return None, f"the service in Go cannot be built: {error.stderr.strip()[-300:]}"
        except subprocess.TimeoutExpired:
            return None, "Go's modules cannot be fetched in time"
    return [str(program)], ""


def _build(go: str, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for path in SOURCE.iterdir():
        shutil.copy(path, place / path.name)
    environment = {**os.environ, "GOBIN": str(place / "bin"), "GOFLAGS": "-mod=mod"}
    environment["PATH"] = os.pathsep.join(
        (str(place / "bin"), str(Path(go).parent), os.environ["PATH"])
    )

    def run(*command: str) -> None:
        subprocess.run(
            command,
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )

    for plugin in PLUGINS:
        run(go, "install", plugin)
    named = ",".join(f"M{file}=stage/v1" for file in FILES)
    outputs = [f"--go{kind}_opt=module=stage,{named}" for kind in ("", "-grpc")]
    run(
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{PROTOS}",
        "--go_out=.",
        "--go-grpc_out=.",
        *outputs,
        *FILES,
    )
    run(go, "build", "-o", "stage", ".")
