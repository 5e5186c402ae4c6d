"""The form of an order: its fields, what it would touch, and where it leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request

from mainspring.console.guard import LONGEST_FORM
from mainspring.console.look import Crumb, Moved, Page, Visitor
from mainspring.errors import InvalidSetting

# What touches more than that is ordered by typing its name.
MANY = 1000

# In the fields of an order: only say what it would touch. Nobody outside sets it.
PREVIEW = "preview"
MOST_MINUTES = 10_080  # a pause from the console ends after so long at most: a week

Form = Mapping[str, str]
Order = Callable[[Visitor, Form], Awaitable[Page | str]]


class Ordered(Moved):
    """An order was carried out; where to look now."""

    def __init__(self, path: str, said: str, undo: str = "") -> None:
        words = {"said": said, **({"undo": undo} if undo else {})}
        super().__init__(path + ("&" if "?" in path else "?") + urlencode(words))


@dataclass(frozen=True, slots=True)
class Plan:
    """What an order would touch, counted before it is given. Nothing is written.

    `name`: what is typed again when that is much. `sure`: it is an operation, which can be stopped.
    """

    action: str
    verb: str
    what: str
    count: int
    form: Form
    facts: Sequence[tuple[str, str]] = ()
    refusal: str = ""
    name: str = "all"
    is_operation: bool = True
    is_danger: bool = False
    crumbs: tuple[Crumb, ...] = ()

    @property
    def fields(self) -> dict[str, str]:
        """The fields that are sent again."""
        found = {n: v for n, v in self.form.items() if n not in (PREVIEW, "reason", "typed")}
        return {**found, "to_type": self.typed}

    @property
    def typed(self) -> str:
        """What is to be typed again, if this touches much."""
        return self.name if self.count > MANY else ""

    def page(self) -> Page:
        """What is shown before anything is done."""
        title = f"{self.verb} {self.what}"
        return Page("plan.html", title, {"plan": self}, self.crumbs)


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form that is no longer than forms are."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_FORM:
            raise InvalidSetting(f"the form has more than {LONGEST_FORM} bytes")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=False, max_num_fields=100))
    except ValueError:
        raise InvalidSetting("the form cannot be read") from None


def needed(form: Form, name: str) -> str:
    """A field that must be there."""
    if not (value := form.get(name)):
        raise InvalidSetting(f"the form lacks {name}")
    return value


def whole(form: Form, name: str) -> int:
    """A field that must be a whole number."""
    text = needed(form, name)
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InvalidSetting(f"{name} must be a number, got {text!r}")
    return int(text)


def check_typed(form: Form) -> None:
    """Refuse what touches much and was not typed again."""
    if (name := form.get("to_type")) and form.get("typed") != name:
        raise InvalidSetting(f"type {name!r} to order this; got {form.get('typed', '')!r}")
