"""`python -m mainspring` is the command line."""

from mainspring_cli import run

run()
