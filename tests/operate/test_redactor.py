"""T13: the rule of what is hidden, in values and in texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.redact import HIDDEN, Redactor


def test_a_name_is_hidden_at_any_depth_and_a_path_where_it_ends_so() -> None:
    rule = Redactor(["password", "card.number"])
    shown = rule.value(
        {
            "password": {"old": "a", "new": "b"},
            "number": 1,
            "cards": [{"card": {"number": 2, "holder": "ann"}}],
            "card": [{"number": 3}, {"card": {"number": 4}}],
        }
    )
    assert shown == {
        "password": HIDDEN,
        "number": 1,
        "cards": [{"card": {"number": HIDDEN, "holder": "ann"}}],
        "card": [{"number": HIDDEN}, {"card": {"number": HIDDEN}}],
    }


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        ("4242", "card 4242-4242", "card [redacted]-[redacted]"),
        ("ann", "ann, anna and 'ann'", "[redacted], anna and '[redacted]'"),
        (7, "7 of 17", "[redacted] of 17"),
        ("a'b\n\"c", "got 'a\\'b\\n\"c'", "got '[redacted]'"),
        ('a"b"c', '{"x": "a\\"b\\"c"}', '{"x": "[redacted]"}'),
        ("2026-01-02T03:04:05Z", "at 2026-01-02 03:04:05+00:00", "at [redacted]"),
        (["long one", "long one more"], "long one more", "[redacted]"),
        ({"ann@x.org": "told"}, "{'ann@x.org': 'told'}", "{'[redacted]': '[redacted]'}"),
        ({"holder": "told"}, "no holder told", "no holder [redacted]"),
        (True, "True", "True"),
        ("", "nothing", "nothing"),
    ],
)
def test_a_text_goes_without_what_it_quotes(secret: object, text: str, shown: str) -> None:
    assert Redactor(["secret"]).text(text, {"secret": secret, "other": "card"}) == shown


@settings(max_examples=60)
@given(st.text(min_size=4, max_size=12))
def test_however_a_text_spells_a_value_it_goes_without(secret: str) -> None:
    rule = Redactor(["secret"])
    ascii_json, wide_json = json.dumps(secret), json.dumps(secret, ensure_ascii=False)
    for spelled in (secret, repr(secret)[1:-1], ascii_json[1:-1], wide_json[1:-1]):
        assert rule.text(f"<{spelled}>", {"secret": secret}) == f"<{HIDDEN}>"
