"""Fixtures of the tests of entities and stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.entities.declare import stage_declaration
from mainspring.entities.declare.stage import StageSettings
from stages import Stages


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not make a question overrun, unless its budget is what is tested."""
    settings = stage_declaration._settings

    def patient(name: str, given: dict[str, Any]) -> StageSettings:
        return settings(name, {"budget": 5.0, **given})

    monkeypatch.setattr(stage_declaration, "_settings", patient)


@pytest.fixture
def stages(database_url: str, app: Mainspring) -> Iterator[Stages]:
    found = Stages(database_url, app)
    yield found
    found.close()
