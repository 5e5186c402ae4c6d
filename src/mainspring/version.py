"""Which release this is, as its installation says."""

from __future__ import annotations

from importlib.metadata import version

__version__ = version("mainspring")
