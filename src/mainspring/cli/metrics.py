"""`mainspring metrics`: OpenMetrics text for a collector."""

from __future__ import annotations

from mainspring.cli import options
from mainspring.cli.target import ask_host
from mainspring.cli.visible import visible


def metrics(url: options.Url = None, app: options.App = None) -> None:
    """Print the numbers of status as OpenMetrics text."""
    print(visible(ask_host(lambda target: target.metrics(), url, app), lines=True), end="")
