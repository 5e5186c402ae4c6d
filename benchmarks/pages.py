"""Pages that the server touched, by table, as its statistics tell: of every statement, whoever sent it."""

from __future__ import annotations

from collections import Counter

import psycopg

# A session reports what it did when it has been idle for so long, and when it ends.
REPORTED_SECONDS = 11.0

TOUCHED = """
select relname::text, heap_blks_read + heap_blks_hit + coalesce(toast_blks_read + toast_blks_hit, 0)
from pg_statio_user_tables where schemaname = 'mainspring'
union all
select relname::text, idx_blks_read + idx_blks_hit
from pg_statio_user_indexes where schemaname = 'mainspring'
"""


def touched(url: str) -> Counter[str]:
    """Pages so far, of the engine's tables and their indexes."""
    pages: Counter[str] = Counter()
    with psycopg.connect(url) as connection:
        for table, count in connection.execute(TOUCHED.encode()):
            pages[table] += count
    return pages
