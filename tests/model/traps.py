"""How the tests of a model judge a search: sound with all rules on, caught with one off."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from explorer import Report


def assert_sound(report: Report) -> None:
    assert report.violation is None, report
    assert report.complete, report


@dataclass(frozen=True, slots=True)
class Trap:
    """What happens without a rule; `also_off` are rules that would repair it later."""

    rule: str
    breaks: str
    step: str
    bounds: Any
    start: Any = None  # None for the model's own
    also_off: tuple[str, ...] = ()

    def assert_caught(self, rules: Any, search: Callable[..., Report], *start: Any) -> None:
        off = dict.fromkeys((self.rule, *self.also_off), False)

        report = search(replace(rules, **off), self.bounds, *start)

        assert report.violation is not None, report
        assert report.violation.startswith(f"{self.breaks}: "), report
        assert any(self.step in line for line in report.trace), report


def by_rule(trap: Trap) -> str:
    return trap.rule
