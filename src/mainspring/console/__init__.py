"""The console: every screen of an operator, and why something stands still. It draws; the engine decides.

What is shown comes from `app.operator`, and what is ordered goes there, in the viewer's name. So the
command line, Python and the console cannot differ. It keeps nothing: any process may serve any request.

app.py       the ASGI application: which path is which page, what every answer carries
viewer.py    who looks, and what they may do
guard.py     what no request may be: of another site, for another host, too long
look.py      one request as a page sees it, and the page that it returns
orders.py    what the buttons do: a preview, a reason, an order
snapshot.py  the engine at a glance, read once for all who watch
live.py      changed parts of a page, sent while somebody watches
draw.py      templates
words.py     times, spans, counts and states in words
pages/       the screens
templates/   their HTML; static/ style, script and what others made (vendor/)
"""

from __future__ import annotations

from mainspring.errors import MissingExtra

try:
    from mainspring.console.app import Console
    from mainspring.console.viewer import Viewer
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in {"jinja2", "markupsafe", "starlette"}:
        raise
    raise MissingExtra("the console", error.name, "serve") from None

__all__ = ["Console", "Viewer"]
