"""How long things are: what is to be read in an evening, and what at a glance.

The bounds are a ratchet: they are what is true today, and are lowered with the code.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "mainspring"
MOST = 400  # of one file
# The public face, where each name has its signatures and an example, and the errors.
LONGER = {"app.py", "operator.py", "errors.py"}
KERNEL = 7000
LAYERS_PAGE = 80


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): lines(path)
        for path in SOURCE.rglob("*.py")
        if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
    }
    assert len(found) > 400
    longer = {name for name, count in found.items() if count > MOST}
    assert longer - LONGER == set()


def test_the_kernel_grows_no_more() -> None:
    assert sum(map(lines, (SOURCE / "kernel").rglob("*.py"))) <= KERNEL


def test_the_page_of_layers_is_short() -> None:
    assert lines(ROOT / "docs/design/layers.md") <= LAYERS_PAGE
