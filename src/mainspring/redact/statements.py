"""The statements of redaction, by name."""

from __future__ import annotations

from mainspring.db.sql import Statement, load

SQL: dict[str, Statement] = load("mainspring.redact")
