"""Pages for people who come from elsewhere: what they had is Python, what they get runs (test_docs.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDES = Path(__file__).parents[2] / "docs/guides"
PAGES = sorted(GUIDES.glob("coming-from-*.md"))


def test_there_is_a_page_for_each() -> None:
    assert [page.stem.removeprefix("coming-from-") for page in PAGES] == [
        "apscheduler", "celery", "django-q", "procrastinate",
    ]  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_has_a_program_before_and_after(page: Path) -> None:
    before = re.findall(r"^```py\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    after = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert (len(before), len(after)) == (1, 1)
    compile(before[0], f"{page.name} before", "exec")
    assert "mainspring" not in before[0]
    assert "assert " in after[0] or "await app.schedules" in after[0]
