"""Where the kernel's numbers are: in tuning.py, each with its reason.

Elsewhere stand only 0, 1 and 2 (none, one, twice and halves), and those that are listed here. What a list
here says is exact: a number that went must be taken out of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from mainspring.kernel.tuning import LEASE, LeaseTuning, Tuning

KERNEL = Path(__file__).parents[2] / "src" / "mainspring" / "kernel"
PLAIN = {0, 1, 2}

# Whole files whose numbers are no tuning.
APART = {
    "tuning.py": "the place for them",
    "settings.py": "defaults that users see, and the bounds within which they may choose",
    "retry.py": "the same, of retries",
    "visit.py": "the ends of time; priorities",
}
ALLOWED: dict[str, dict[str, list[float]]] = {
    "units: milliseconds, microseconds": {
        "lease/heart.py": [1000, 1000],
        "run/run_log.py": [1000],
        "settle/batches.py": [1e6, 1e6],
    },
    "digits and characters of what people read": {
        "lease/loop_port.py": [3],
        "read/listener.py": [100],
        "run/run_log.py": [3, 1000, 4000],
        "settle/batches.py": [500],
        "settle/settler.py": [1000],
        "worker.py": [3],
    },
    "the first day of time": {"read/listener.py": [1970]},
    "a priority, which the protocol names": {"run/fairness.py": [3]},
}


def numbers(tree: ast.AST) -> Iterator[float]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, int | float)
            and node.value not in PLAIN  # nor True and False
        ):
            yield node.value


def test_the_kernel_has_its_numbers_in_one_place() -> None:
    found = {
        str(path.relative_to(KERNEL)): sorted(numbers(ast.parse(path.read_text())))
        for path in KERNEL.rglob("*.py")
    }
    allowed: dict[str, list[float]] = {}
    for some in ALLOWED.values():
        for name, values in some.items():
            allowed[name] = sorted([*allowed.get(name, []), *values])

    assert {name: some for name, some in found.items() if some and name not in APART} == allowed


@pytest.mark.parametrize("tuning", [Tuning, LeaseTuning])
def test_each_of_them_has_a_reason(tuning: type[Tuning | LeaseTuning]) -> None:
    """A comment goes before it, or before the pair that it is one of."""
    files = (KERNEL / "tuning.py", KERNEL.parent / "limits/tuning.py")
    lines = [line for file in files for line in file.read_text().splitlines()]
    for field in fields(tuning):
        [at] = [n for n, line in enumerate(lines) if line.startswith(f"    {field.name}: ")]
        above = lines[at - 1] if lines[at - 1].startswith("    #") else lines[at - 2]
        assert above.startswith("    # "), field.name
        assert not above.startswith("    # --"), field.name


def test_the_fence_comes_before_the_end_and_that_before_others_take_over() -> None:
    """What nobody may tune away: a run ends before another worker may start the same visit."""
    assert LEASE.beat < LEASE.fence < LEASE.exit < 1
    assert LEASE.fence + LEASE.loop_look < LEASE.exit
