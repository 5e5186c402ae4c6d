"""Bands: which there should be, and how ownership is written down in them. Pure decisions."""

from __future__ import annotations

from itertools import combinations
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mainspring.sharing.bands import (
    WHOLE,
    Band,
    Code,
    Piece,
    band_name,
    bands_for,
    code_of,
    must_yield,
    recut,
)
from mainspring.sharing.tuning import SHARING

ANN, BOB, EVE, CAT = (UUID(int=n) for n in (1, 2, 3, 4))


def code(names: str, *turns: str) -> Code:
    """Queues of a letter each; those of a word of `turns` take turns."""
    return code_of(names, [next((t for t in turns if name in t), None) for name in names])


def band(names: str) -> Band:
    return frozenset(names)


class TestBands:
    """T2: bands are what the same codes have, and never cut a turn class."""

    def test_one_code_is_whole_and_so_is_any_pool_with_the_release_before(self) -> None:
        assert bands_for([code("ab"), code("ba")]) == [WHOLE]
        assert bands_for([code("ab"), code("a"), None]) == [WHOLE]

    def test_a_code_is_its_queues_and_their_turns_in_any_order(self) -> None:
        assert code("ab").digest == code("ba").digest
        assert len({code("ab").digest, code("a").digest, code("ab", "ab").digest}) == 3

    def test_queues_that_the_same_codes_have_are_one_band(self) -> None:
        found = bands_for([code("abx"), code("abyz")])

        assert set(found) == {band("ab"), band("x"), band("yz")}

    def test_what_takes_turns_by_any_code_is_one_band(self) -> None:
        found = bands_for([code("abc"), code("bcd", "bc"), code("cd", "cd")])

        assert set(found) == {band("a"), band("bcd")}

    def test_too_many_bands_are_one_a_code(self) -> None:
        names = [chr(0x4E00 + n) for n in range(40)]
        codes = [code(a + b) for a, b in combinations(names[:8], 2)]

        found = bands_for(codes)

        assert len(found) <= len(codes)
        assert sorted("".join("".join(b or ()) for b in found)) == sorted(names[:8])
        many = [code("".join(names[n : n + 3])) for n in range(30)]
        assert len(bands_for(many)) <= 30 > SHARING.most_bands

    def test_a_band_is_named_by_its_content(self) -> None:
        assert band_name("p", WHOLE) == "p"
        assert (
            band_name("p", band("ab")) == band_name("p", band("ba")) != band_name("q", band("ab"))
        )
        assert band_name("p", band("ab")).startswith("p\x1f")


class TestRecut:
    """T2: a recut takes nothing from anybody that can run it."""

    def test_the_owner_of_the_whole_keeps_what_it_has_some_of(self) -> None:
        living = {ANN: code("ab"), BOB: code("ac")}

        found = recut([Piece(WHOLE, ANN, EVE)], bands_for(list(living.values())), living)

        assert set(found) == {
            Piece(band("a"), ANN, EVE),
            Piece(band("b"), ANN, EVE),
            Piece(band("c"), None, EVE),
        }

    def test_pieces_of_two_owners_stay_apart_until_one_yields(self) -> None:
        living = {ANN: code("ab"), BOB: code("ab")}
        apart = [Piece(band("a"), ANN), Piece(band("b"), BOB)]

        assert set(recut(apart, [WHOLE], living)) == set(apart)
        yields = [must_yield(piece, apart, [WHOLE], living) for piece in apart]
        assert yields == [False, True]
        assert recut([apart[0], Piece(band("b"))], [WHOLE], living) == [Piece(WHOLE, ANN)]

    def test_an_owner_without_a_row_is_dead_and_its_visits_are_suspects(self) -> None:
        found = recut([Piece(WHOLE, EVE)], [WHOLE], {ANN: code("a")})

        assert found == [Piece(WHOLE, None, EVE)]

    def test_different_suspects_stay_apart_with_their_one_owner(self) -> None:
        living = {ANN: code("ab")}
        apart = [Piece(band("a"), ANN, BOB), Piece(band("b"), None, EVE)]

        found = recut(apart, [WHOLE], living)

        assert set(found) == {Piece(band("a"), ANN, BOB), Piece(band("b"), ANN, EVE)}
        assert recut([Piece(b.band, ANN) for b in found], [WHOLE], living) == [Piece(WHOLE, ANN)]

    def test_suspects_of_queues_that_nobody_has_wait_for_who_has_them_next(self) -> None:
        pieces = [Piece(band("a"), EVE), Piece(band("b"), ANN), Piece(band("c"), BOB)]
        living: dict[UUID, Code | None] = {ANN: code("b"), BOB: code("c")}
        target = bands_for(list(living.values()))

        found = recut(pieces, target, living)

        assert set(found) == {Piece(band("a"), None, EVE), *pieces[1:]}
        living[CAT] = code("a")
        assert set(recut(found, bands_for(list(living.values())), living)) == set(found)


names = st.text("abcdef", min_size=1, max_size=4).map(lambda s: "".join(sorted(set(s))))
codes = st.builds(lambda s, t: code(s, t), names, names)
owners = st.sampled_from([None, ANN, BOB, EVE])


@given(st.lists(codes, min_size=1, max_size=3), st.lists(codes, min_size=1, max_size=3), st.data())
def test_a_recut_of_anything_is_disjoint_takes_nothing_and_comes_to_rest(
    before: list[Code], after: list[Code], data: st.DataObject
) -> None:
    """T2: whatever codes come and go, and whoever owns what."""
    pieces = [Piece(each, data.draw(owners)) for each in bands_for(before) if each is None or each]
    living: dict[UUID, Code | None] = dict(zip((ANN, BOB, EVE), after, strict=False))
    target = bands_for(list(living.values()))

    found = recut(pieces, target, living)

    listed = [queue for piece in found for queue in (piece.band or "*")]
    assert len(listed) == len(set(listed)), "no queue is in two bands"
    for piece in pieces:
        if (has := living.get(piece.owner)) if piece.owner else None:
            for queue in has.queues if piece.band is None else has.queues & piece.band:
                (now,) = [p for p in found if p.band is None or queue in p.band]
                assert now.owner == piece.owner
    assert set(recut(found, target, living)) == set(found)
