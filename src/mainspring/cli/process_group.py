"""`mainspring processes`: its commands, which are in several files."""

from __future__ import annotations

from mainspring.cli.actors import actors, changes, counters
from mainspring.cli.process_changes import cancel, restart
from mainspring.cli.process_locks import locks
from mainspring.cli.process_orders import cancel_all, restart_all, templates
from mainspring.cli.processes import group as group

for order in (cancel, restart, locks, actors, counters, changes, restart_all, cancel_all):
    group.command(order.__name__.replace("_", "-"))(order)
group.add_typer(templates, name="templates")
