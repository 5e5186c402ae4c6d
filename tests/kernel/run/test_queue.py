"""A level of the buffer: the oldest first, however visits come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainspring.kernel.run.queue import Level
from mainspring.kernel.visit import END, Visit
from visits import visit

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(0, 9)),
        st.tuples(st.just("page"), st.lists(st.integers(0, 9), min_size=1, max_size=5)),
        st.tuples(st.just("pop"), st.none()),
        st.tuples(st.just("keep"), st.integers(0, 9)),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_oldest_always_comes_first(steps: list[tuple[str, object]]) -> None:
    """T4: whatever was read, came back or was dropped."""
    level = Level()
    there: list[Visit] = []
    count = 0

    def made(at: int) -> Visit:
        nonlocal count
        count += 1
        return visit(f"{count:03}", at=at)

    for what, given_ in steps:
        if what == "push":
            assert isinstance(given_, int)
            there.append(made(given_))
            level.push(there[-1])
        elif what == "page":
            assert isinstance(given_, list)
            page = sorted((made(at) for at in given_), key=lambda v: v.position)
            if level.extend(page):
                there += page
        elif what == "pop" and there:
            oldest = min(there, key=lambda v: v.position)
            assert level.pop() is oldest
            there.remove(oldest)
        elif what == "keep":
            assert isinstance(given_, int)
            there = [v for v in there if v.due_at.second % 10 != given_]
            level.keep(there)
        assert len(level) == len(there)
        assert bool(level) is bool(there)
        assert sorted(v.key for v in level) == sorted(v.key for v in there)
        assert level.front == min((v.position for v in there), default=END)
