"""How many calls were answered, with which status, and how long they took: for whoever collects metrics.

Each process counts its own calls; a collector that asks an address of several processes sees one of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 70.0)


@dataclass(slots=True)
class Durations:
    """How long the calls of one name took, by the first bound that they kept."""

    seconds: float = 0.0
    within: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))


class CallCounts:
    """What one server process has answered."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, str], int] = {}
        self._durations: dict[tuple[str, str], Durations] = {}

    def add(self, transport: str, call: str, status: str, seconds: float) -> None:
        """One call was answered. `call` is one of a few names, never what a caller wrote."""
        place = (transport, call, status)
        self._answers[place] = self._answers.get(place, 0) + 1
        durations = self._durations.setdefault((transport, call), Durations())
        durations.seconds += seconds
        durations.within[bisect_left(BOUNDS, seconds)] += 1

    def lines(self) -> Iterator[str]:
        """As OpenMetrics has them, without an end."""
        name = "mainspring_server_calls"
        yield f"# TYPE {name} counter"
        yield f"# HELP {name} Calls that this server process has answered."
        for (transport, call, status), count in sorted(self._answers.items()):
            labels = f'transport="{transport}",call="{call}",status="{status}"'
            yield f"{name}_total{{{labels}}} {count}"
        name = "mainspring_server_call_seconds"
        yield f"# TYPE {name} histogram"
        yield f"# HELP {name} How long they took, the time that callers let them wait included."
        for (transport, call), found in sorted(self._durations.items()):
            labels = f'transport="{transport}",call="{call}"'
            sum_of = 0
            for bound, count in zip((*BOUNDS, "+Inf"), found.within, strict=True):
                sum_of += count
                yield f'{name}_bucket{{{labels},le="{bound}"}} {sum_of}'
            yield f"{name}_sum{{{labels}}} {found.seconds:.6f}"
            yield f"{name}_count{{{labels}}} {sum_of}"
