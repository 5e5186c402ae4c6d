"""The statements of the engine's jobs, by name. What writes visits is the kernel's (`KERNEL_SQL`)."""

from __future__ import annotations

from mainspring.db.sql import Statement, load

SQL: dict[str, Statement] = load("mainspring.jobs")
