"""Media types: what a caller takes, and what a body is."""

from __future__ import annotations

from collections.abc import Iterable


def media_type(header: str | None) -> str:
    """The type without its parameters."""
    return (header or "").partition(";")[0].strip().lower()


def accepts(headers: Iterable[str], wanted: str) -> bool:
    """Whether a type may be answered; who says nothing takes anything. The closest range decides."""
    ranges = [
        part.strip().lower() for header in headers for part in header.split(",") if part.strip()
    ]
    if not ranges:
        return True
    family = wanted.partition("/")[0]
    for name in (wanted, f"{family}/*", "*/*"):
        found = [part for part in ranges if media_type(part) == name]
        if found:
            return any(not _is_zero(part) for part in found)
    return False


def _is_zero(part: str) -> bool:
    parameters = [text.replace(" ", "") for text in part.split(";")[1:]]
    return any(text in ("q=0", "q=0.", "q=0.0", "q=0.00", "q=0.000") for text in parameters)
