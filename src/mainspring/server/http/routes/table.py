"""All routes."""

from __future__ import annotations

from mainspring.server.http.routes import actors, params, processes, states, tasks
from mainspring.server.http.routes.route import AnyRoute

ROUTES: list[AnyRoute] = [
    *tasks.ROUTES,
    *params.ROUTES,
    *processes.ROUTES,
    *states.ROUTES,
    *actors.ROUTES,
]
