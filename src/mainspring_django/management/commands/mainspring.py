"""`manage.py mainspring ...`: the command line of Mainspring, with the project's application.

python manage.py mainspring worker --processes 4
python manage.py mainspring status
"""

from __future__ import annotations

import os
import sys
from argparse import REMAINDER, ArgumentParser

from django.core.management.base import BaseCommand

import mainspring_cli

APP = "mainspring_django.worker:app"
_OF_DJANGO = ("--settings", "--pythonpath")


class Command(BaseCommand):  # type: ignore[misc]
    """See the module."""

    help = "Mainspring's command line for this project: worker, status, why, parked ..."

    def run_from_argv(self, argv: list[str]) -> None:
        """All that follows the command's name is for Mainspring."""
        _run(_without_django_s(argv[2:]))

    def add_arguments(self, parser: ArgumentParser) -> None:
        """For `call_command`, which has a parser."""
        parser.add_argument("arguments", nargs=REMAINDER)

    def handle(self, *_: str, arguments: list[str], **__: object) -> None:
        """The same for `call_command("mainspring", "status")`."""
        _run(arguments)


def _run(arguments: list[str]) -> None:
    os.environ["MAINSPRING_APP"] = APP
    # Worker processes start in the same directory, but manage.py may lie, and point, elsewhere.
    paths = [path for path in sys.path if path and "site-packages" not in path]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*paths, *_given("PYTHONPATH")]))
    before, sys.argv = sys.argv, ["mainspring", *arguments]
    try:
        mainspring_cli.run()
    finally:
        sys.argv = before


def _given(name: str) -> list[str]:
    return [path for path in os.environ.get(name, "").split(os.pathsep) if path]


def _without_django_s(arguments: list[str]) -> list[str]:
    """Without the options that manage.py has read itself."""
    rest: list[str] = []
    skip = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if skip or name in _OF_DJANGO:
            skip = not skip and not equals
        else:
            rest.append(argument)
    return rest
