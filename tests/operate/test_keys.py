"""Keys: what a user gave comes back from what is stored, whatever characters are in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.ids import grouped_key
from mainspring.operate.keys import stored_keys, user_key

TEXT = st.text(st.sampled_from("0123:é𝄞a "), min_size=1)


@given(TEXT, st.none() | TEXT)
def test_the_user_s_key_is_read_from_the_stored_one(key: str, group: str | None) -> None:
    stored = grouped_key(group, key)

    assert user_key(stored) == key
    assert stored in stored_keys(key, group)


@pytest.mark.parametrize("key", ["name@2026-01-01T00:00:00+00:00", "9:short", "²:x", "a:b"])
def test_a_key_of_another_form_stays_as_it_is(key: str) -> None:
    assert user_key(key) == key
