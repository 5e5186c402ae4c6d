"""What no request may be, before any page sees it; and what every answer carries.

A form of another site is told by what the browser says of it (Sec-Fetch-Site, else Origin): no token in
the page, none to expire. A name that leads here by a foreign DNS is refused where the server knows its own.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers

LONGEST_QUERY = 4096
LONGEST_FORM = 64 * 1024
READING = ("GET", "HEAD")

# Nothing inline, nothing from elsewhere, in nobody's frame.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def refusal(
    method: str, headers: Headers, query: bytes, hosts: Collection[str] | None
) -> tuple[int, str] | None:
    """Why a request is not served, with its status; None: it is."""
    host = headers.get("host", "")
    if hosts is not None and name_of(host) not in hosts:
        return (
            403,
            "This server is asked for by a name that is not its own. --allow-host adds names.",
        )
    if len(query) > LONGEST_QUERY:
        return 414, f"The query has {len(query)} bytes; at most {LONGEST_QUERY} are read."
    if method in READING:
        return None
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return 403, "Forms of other sites are refused."
    if origin is not None and urlsplit(origin).netloc != host:
        return 403, "Forms of other sites are refused."
    if site is None and origin is None:
        return 403, "The browser does not say which page sent this form, so it is refused."
    return None


def name_of(host: str) -> str:
    """The host without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""
