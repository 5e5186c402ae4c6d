"""The catalogue of categories. It has versions, and comes with the code."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import MappingProxyType

# What became of the categories that version 2 no longer has.
_MOVED_IN_2 = MappingProxyType({"estate": "wagon", "off-road": "suv", "cabrio": "convertible"})


@dataclass(frozen=True, slots=True)
class Catalogue:
    """One version of the catalogue."""

    version: int

    def translate(self, category: str, since: int) -> str:
        """What a category of an older version is called in this one."""
        if since < 2 <= self.version:
            return _MOVED_IN_2.get(category, category)
        return category


def current() -> Catalogue:
    """The version that this deployment has: LISTINGS_CATALOGUE, else the first."""
    return Catalogue(int(os.environ.get("LISTINGS_CATALOGUE", "1")))
