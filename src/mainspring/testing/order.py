"""In which order due visits of one entity come: what may differ from run to run in the real engine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from mainspring.entities.kind import AnyKind

SYSTEM = "(system)"  # the system visit, which asks the stages


@dataclass(frozen=True)
class Order:
    """Stages by rank, the system visit among them; with a `seed` the first is drawn at random.

    Made from values that print, so a failing order can be pasted into a test.
    """

    ranks: tuple[str, ...]
    seed: int | None = None

    def __post_init__(self) -> None:
        draw = None if self.seed is None else random.Random(self.seed)
        object.__setattr__(self, "_draw", draw)

    @staticmethod
    def declared(kind: AnyKind) -> Order:
        """The system visit first, then the stages as they were declared."""
        return Order((SYSTEM, *kind.stages))

    def again(self) -> Order:
        """The same order from its beginning."""
        return Order(self.ranks, self.seed)

    def first(self, due: Sequence[str]) -> str:
        """Which of these due visits comes first."""
        ranked = sorted(due, key=self.ranks.index)
        draw: random.Random | None = self._draw  # type: ignore[attr-defined]
        return ranked[0] if draw is None else draw.choice(ranked)


def orders(kind: AnyKind) -> object:
    """A Hypothesis strategy of orders of a kind's stages; it shrinks to the declared one.

    @given(order=orders(listing))
    def test_the_order_of_stages_does_not_matter(order):
        check_confluence(listing, [Listing(id=1, ...)], order)
    """
    from hypothesis import strategies

    seeds = strategies.none() | strategies.integers(0, 2**32 - 1)
    ranks = strategies.permutations([SYSTEM, *kind.stages]).map(tuple)
    return strategies.builds(Order, ranks, seeds)
