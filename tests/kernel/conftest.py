"""Fixtures of the kernel's tests: the statements, and a simulated worker."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from visits import Visits, queue


@pytest.fixture
def visits(mainspring_url: str) -> Iterator[Visits]:
    """The protocol's statements on a fresh database that knows one queue."""
    found = Visits(mainspring_url)
    found.register(queue())
    yield found
    # The simulated workers end as they are; what they leave is no leak.
    found.query("delete from mainspring.worker")
    found.query("update mainspring.lease set worker_id = null")
    found.query("delete from mainspring.visit where pass is not null")
    found.close()


@pytest.fixture
def me(visits: Visits) -> UUID:
    """A worker that has joined and owns all shards."""
    worker_id = visits.join()
    visits.take(worker_id)
    return worker_id
