"""Bands: which queues of a pool have leases of their own while its workers have different code. Pure.

A pool is whole (one lease a shard, for every queue) while all its workers have the same code. Else
each shard is cut into bands: disjoint sets of queues. A cut writes down the ownership that there is, in
smaller pieces. It takes nothing from anybody; only take and give move work (docs/design/mixed-pools.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from uuid import UUID

from mainspring.sharing.shares import Peer
from mainspring.sharing.tuning import SHARING

# Who the whole row of a shard belongs to while the shard is cut: nobody can take, give or free it.
CLOSED = UUID(int=0)
# Between a pool and a band's digest in the name of the band's leases; no pool's name contains it.
UNIT = "\x1f"

# The queues of a band; None is the whole pool, with every queue there is.
Band: TypeAlias = frozenset[str] | None
WHOLE: Band = None


@dataclass(frozen=True, slots=True)
class Code:
    """What a worker's code can run, as far as leases are concerned."""

    digest: str
    queues: frozenset[str]
    links: frozenset[tuple[str, str]]  # queues with their turn class

    def has(self, band: Band) -> bool:
        """Whether it has at least one queue of this band."""
        return band is None or not self.queues.isdisjoint(band)

    def has_all(self, band: Band) -> bool:
        return band is None or self.queues >= band


# The codes of workers; none of one that knows no bands.
Codes: TypeAlias = Mapping[UUID, Code | None]


class Piece(NamedTuple):
    """Who owns a band in a certain shard, and whose suspects lie there."""

    band: Band
    owner: UUID | None = None
    suspect_of: UUID | None = None


Cut: TypeAlias = dict[int, frozenset[Piece]]  # the pieces of each shard


def code_of(queues: Iterable[str], turns: Iterable[str | None]) -> Code:
    """The code that has these queues, each with its turn class or none."""
    pairs = sorted((queue, turn or "") for queue, turn in zip(queues, turns, strict=True))
    links = frozenset((queue, turn) for queue, turn in pairs if turn)
    text = "\n".join(f"{queue}{UNIT}{turn}" for queue, turn in pairs)
    return Code(_digest(text), frozenset(queue for queue, _ in pairs), links)


def band_name(pool: str, band: Band) -> str:
    """The name that a band's leases have as their pool: by its content, so it never means another."""
    return pool if band is None else f"{pool}{UNIT}{_digest(UNIT.join(sorted(band)))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def bands_for(codes: Collection[Code | None]) -> list[Band]:
    """The bands that a pool should have while these codes live; None is one that knows no bands."""
    known = sorted({code for code in codes if code is not None}, key=lambda code: code.digest)
    if None in codes or len(known) <= 1:
        return [WHOLE]
    families = _families(known)
    served: dict[tuple[int, ...], frozenset[str]] = {}
    for family in families:
        key = tuple(code.has(family) + code.has_all(family) for code in known)
        served[key] = served.get(key, frozenset()) | family
    if len(served) <= SHARING.most_bands:
        return list(served.values())
    bands: list[Band] = []
    for code in known:
        mine = [family for family in families if code.has(family)]
        families = [family for family in families if not code.has(family)]
        if mine:
            bands.append(frozenset().union(*mine))
    return bands


def _families(codes: Iterable[Code]) -> list[frozenset[str]]:
    """Queues that must have one owner: connected by a turn class of any of these codes."""
    families = {queue: {queue} for code in codes for queue in code.queues}
    first: dict[str, str] = {}  # a queue of each class
    for queue, turn in sorted(link for code in codes for link in code.links):
        one, other = families[first.setdefault(turn, queue)], families[queue]
        if one is not other:
            one |= other
            families.update(dict.fromkeys(other, one))
    return list({id(family): frozenset(family) for family in families.values()}.values())


def turns_of(codes: Collection[Code | None]) -> dict[str, set[str]]:
    """The turn classes that queues have by any of these codes; none while there is one code only."""
    found: dict[str, set[str]] = {}
    for code in set(codes) if len(set(codes)) > 1 else ():
        for queue, turn in code.links if code is not None else ():
            found.setdefault(queue, set()).add(turn)
    return found


def planned(cut: Cut, target: Sequence[Band], living: Codes) -> Cut:
    """How these shards should be cut while these workers live; shards that are alike are judged once."""
    known = {pieces: frozenset(recut(pieces, target, living)) for pieces in set(cut.values())}
    return {shard: known[pieces] for shard, pieces in cut.items()}


def recut(pieces: Collection[Piece], target: Sequence[Band], living: Codes) -> list[Piece]:
    """The same ownership of one shard, written down in these bands as far as it goes.

    A piece belongs to the owner of what it is cut from, if that one lives and has some of it. Pieces with
    different owners stay apart until gives have made one owner of them. So do pieces of one owner with
    different suspects, until those were looked at.
    """
    found: list[Piece] = []
    for band in target:
        cut = [_cut(piece, band, living) for piece in pieces if _overlap(piece.band, band)]
        owners = {piece.owner for piece in cut} - {None}
        suspects = sorted({piece.suspect_of for piece in cut if piece.suspect_of is not None})
        owner = next(iter(owners), None)
        if len(owners) <= 1 and (len(suspects) <= 1 or owner is None):
            found.append(Piece(band, owner, suspects[-1] if suspects else None))
            continue
        found += [piece._replace(owner=owner) for piece in cut] if len(owners) == 1 else cut
        # Queues that no living code had before.
        rest = (band or frozenset()).difference(*(piece.band or () for piece in cut))
        found += [Piece(rest)] if rest else []
    if WHOLE in target:
        return found
    # Queues that no living code has keep a piece where there are suspects: for whoever has them next.
    known = frozenset[str]().union(*(band or () for band in target))
    rests = [(piece, piece.band - known) for piece in pieces if piece.band is not None]
    left = [_cut(piece, rest, living) for piece, rest in rests if rest]
    return found + [piece for piece in left if piece.suspect_of is not None]


def _cut(piece: Piece, band: Band, living: Codes) -> Piece:
    """What there is of a piece in a band. A dead owner's is free, and suspect."""
    common = band if piece.band is None else piece.band if band is None else piece.band & band
    if piece.owner is not None and piece.owner not in living:
        return Piece(common, None, piece.owner)
    code = None if piece.owner is None else living[piece.owner]
    keeps = code is None or code.has(common)
    return Piece(common, piece.owner if keeps else None, piece.suspect_of)


def _overlap(one: Band, other: Band) -> bool:
    return one is None or other is None or not one.isdisjoint(other)


def members(band: Band, peers: Sequence[Peer], codes: Codes) -> list[Peer]:
    """Who shares a band: those who have all of it, once they are enough; else whoever has some."""
    if band is None:
        return list(peers)
    known = [(peer, code) for peer in peers if (code := codes.get(peer.id)) is not None]
    some = [peer for peer, code in known if code.has(band)]
    full = [peer for peer, code in known if code.has_all(band)]
    is_enough = sum(p.slots for p in full) >= SHARING.enough * sum(p.slots for p in some)
    return full if full and is_enough else some


def must_yield(
    mine: Piece, pieces: Iterable[Piece], target: Sequence[Band], staying: Codes
) -> bool:
    """Whether a piece of mine has to go, so that the pieces of a band get one owner.

    All who look at the same leases name the same one to stay. It has all of the band and means to stay;
    among such, its piece comes first by its content.
    """
    over = [band for band in target if band != mine.band and _overlap(mine.band, band)]
    if not over:
        return False
    rivals: list[tuple[bool, list[str], UUID]] = []
    for piece in pieces:
        if piece.owner is not None and piece.owner in staying and _overlap(piece.band, over[0]):
            code = staying[piece.owner]
            lacks = code is not None and not code.has_all(over[0])
            rivals.append((lacks, sorted(piece.band or ()), piece.owner))
    return len({owner for *_, owner in rivals}) > 1 and min(rivals)[-1] != mine.owner
