"""Templates: what is shown is escaped, whatever it says; control characters are shown as escapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mainspring.console import words
from mainspring.console.remedies import CALM

MOST_JSON = 64 * 1024
# Terminal escapes, and marks that turn text around: both make a page say what it does not.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: object) -> str:
    """A text whose control characters are shown."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text))


def as_json(value: object) -> str:
    """A payload as people read it, cut where nobody would."""
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    if len(text) > MOST_JSON:
        return (
            visible(text[:MOST_JSON]) + f"\n… cut after {MOST_JSON:,} of {len(text):,} characters"
        )
    return visible(text)


def shown_as_json(values: Mapping[str, object]) -> bytes:
    """What a page shows, for programs and for whoever copies it."""
    return msgspec.json.format(msgspec.json.encode(values, enc_hook=str), indent=2)


def time_tag(at: datetime | None, now: datetime) -> Markup:
    """A moment: relative for people, whole for programs; the script shows it in the zone they choose."""
    if at is None:
        return Markup('<span class="soft">-</span>')
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(), words.utc(at), words.ago(at, now)
    )


def state_tag(state: str, word: str | None = None) -> Markup:
    """A state: shape, word and colour."""
    return Markup('<span class="st {}">{}</span>').format(words.shape(state), word or state)


def spark(values: list[float], label: str) -> Markup:
    """A small line of the last values."""
    if len(values) < 2:
        return Markup("")
    top = max(values) or 1.0
    step = 92 / (len(values) - 1)
    points = " ".join(
        f"{n * step:.1f} {20 - 18 * value / top:.1f}" for n, value in enumerate(values)
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 96 22" role="img" aria-label="{}"><path d="M{}"/></svg>'
    ).format(label, points)


@cache
def static_name(name: str) -> str:
    """A static file under a name that changes with what is in it."""
    data = (files("mainspring.console") / "static").joinpath(*name.split("/")).read_bytes()
    return f"{name}?v={sha256(data).hexdigest()[:12]}"


@cache
def environment() -> Environment:
    """Where templates come from, and what they may call."""
    made = Environment(
        loader=PackageLoader("mainspring.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters.update(
        span=words.span,
        number=words.number,
        utc=words.utc,
        first_line=words.first_line,
        json=as_json,
    )
    made.globals.update(
        state=state_tag,
        time_of=time_tag,
        spark=spark,
        static_name=static_name,
        path=words.link,
        order_path=words.order_path,
        plan_path=words.plan_path,
        shape=words.shape,
        is_calm=CALM.__contains__,
    )
    return made


def _shown(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, Markup):
        return value
    return escape(visible(value)) if isinstance(value, str) else value
