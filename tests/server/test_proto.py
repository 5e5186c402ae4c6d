"""The protocol: what is generated is fresh, buf finds nothing wrong, and what breaks callers is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PROTOS = sorted((SOURCE / "mainspring" / "v1").glob("*.proto"))
RELEASED = ROOT / "tests" / "contract" / "v1_released.binpb"
BUF = Path(sys.executable).parent / "buf"


def buf(*arguments: object, where: Path = ROOT) -> tuple[int, str]:
    done = subprocess.run([BUF, *map(str, arguments)], cwd=where, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_generated_code_is_that_of_the_protos(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{SOURCE}"]
    outs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run([*command, *outs, *PROTOS], check=True)

    made = {path.name: path.read_text() for path in (tmp_path / "mainspring" / "v1").iterdir()}
    there = {path.name: path.read_text() for path in (SOURCE / "mainspring" / "v1").glob("*_pb2*")}

    assert len(made) == 3 * len(PROTOS)
    assert made == there, "run make proto"


def test_buf_has_nothing_to_say() -> None:
    assert buf("lint") == (0, "")


def test_nothing_that_was_released_has_changed() -> None:
    """The image is of the last release; a new release writes it anew (buf build -o)."""
    assert buf("breaking", "--against", RELEASED) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("string task = 1;", "int64 task = 1;", 'changed type from "string" to "int64"'),
        ("string key = 4;", "", 'Previously present field "4"'),
        ("rpc CancelTask(", "rpc DropTask(", 'Previously present RPC "CancelTask"'),
    ],
)
def test_a_change_that_breaks_callers_is_found(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    """T8: other languages have compiled the old files."""
    where = tmp_path / "src" / "mainspring" / "v1"
    where.mkdir(parents=True)
    (tmp_path / "buf.yaml").write_text((ROOT / "buf.yaml").read_text())
    for proto in PROTOS:
        text = proto.read_text()
        if proto.name == "task_service.proto":
            assert old in text
            text = text.replace(old, new, 1)
        (where / proto.name).write_text(text)

    code, found = buf("breaking", "--against", RELEASED, where=tmp_path)

    assert code == 100
    assert said in found
