"""The kernel is closed: it alone writes visits, by one rule, and it knows nothing of those who use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mainspring

SOURCE = Path(mainspring.__file__).parent
KERNEL = SOURCE / "kernel"
# What made the tables, what a test compares with the schema that there is, and what sends the copies that
# others ask for. And the test kit: what makes a call that has failed, which no program but a test does.
ELSEWHERE = (
    *(SOURCE / "db/schema/migrations", SOURCE / "db/schema/schema.sql", SOURCE / "db/tx.py"),
    SOURCE / "testing/enqueued.py",
)
WRITE = re.compile(
    r"\b(?:insert\s+into|update|delete\s+from|merge\s+into|truncate(?:\s+table)?|copy)\s+(?:only\s+)?"
    r"mainspring\.(?:visit|reach)\b|\bcopy_to_table\(|(?<!class )\bCopyStep\(",
    re.IGNORECASE,
)
# An insert of visits up to the clause that says what happens when a visit is there.
INSERT = re.compile(
    r"insert into mainspring\.visit\b(?:(?!insert into).)*? on conflict"
    r"(?: \(shard, key, queue\)| on constraint visit_pkey)? do (?P<what>nothing|update set .*)",
)
# After the rule a statement ends, or says what it returns; one leaves alone what its transaction wrote.
AFTER = ("returning ", ";", ")", "$$", "where v.xmin <> pg_current_xact_id()::xid ")


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    """The files of a folder that can hold a statement, without their comments, each on one line."""
    for path in sorted([*folder.rglob("*.sql"), *folder.rglob("*.py")]):
        text = path.read_text("utf-8")
        if path.suffix == ".sql":
            text = re.sub(r"--.*", "", text)
        yield str(path.relative_to(SOURCE)), re.sub(r"\s+", " ", text)


def canonical() -> str:
    """How an offer merges into the visit that is there, as offer.sql says it."""
    text = dict(texts(KERNEL))["kernel/sql/offer.sql"]
    return text.partition(" do update ")[2].partition(" returning ")[0]


def unlike(text: str, rule: str) -> list[str]:
    """The merges of a text that are not the rule, beginning with their first difference."""
    found = []
    for match in re.finditer(r"insert into mainspring\.visit\b", text):
        insert = INSERT.match(text, match.start())
        if insert is None or insert["what"].startswith("nothing"):
            continue
        merge = insert["what"].removeprefix("update ")
        rest = merge.removeprefix(rule).lstrip()
        if rest == merge or not (rest == "" or rest.startswith(AFTER)):
            found.append(merge[:400])
    return found


def test_the_rule_says_what_becomes_of_every_column_that_an_offer_has() -> None:
    assert re.findall(r"(\w+) = ", canonical()) == [
        "version",
        "due_at",
        "priority",
        "payload",
        "offered_while_parked",
        "changed_at",
    ]


def test_visits_and_reach_are_written_by_the_kernel_alone() -> None:
    """Statements and functions of layers call functions of kernel/functions, or send the kernel's own."""
    writers = {
        name
        for name, text in texts(SOURCE)
        if WRITE.search(text) and not any((SOURCE / name).is_relative_to(e) for e in ELSEWHERE)
    }

    assert "kernel/sql/offer.sql" in writers
    assert sorted(name for name in writers if not name.startswith("kernel/")) == []


def test_every_offer_merges_by_the_one_rule() -> None:
    """The rule stands in each statement that needs it in its own text: for its speed, or because it is a
    function. So they are compared."""
    rule = canonical()
    merging = [
        name for name, text in texts(KERNEL) if " do update " in text and "visit as v" in text
    ]

    assert len(merging) >= 5
    assert {name: unlike(text, rule) for name, text in texts(KERNEL) if unlike(text, rule)} == {}


@pytest.mark.parametrize(
    "changed",
    [
        ("payload = v.payload || excluded.payload, ", ""),
        ("v.offered_while_parked or v.parked_at is not null", "v.offered_while_parked"),
        ("changed_at = excluded.changed_at", "changed_at = excluded.changed_at, attempt = 0"),
    ],
)
def test_a_merge_that_differs_is_found(changed: tuple[str, str]) -> None:
    text, rule = dict(texts(KERNEL))["kernel/functions/offer_visits.sql"], canonical()
    assert unlike(text, rule) == []
    before, found, after = text.rpartition(changed[0])
    assert found

    assert len(unlike(before + changed[1] + after, rule)) == 1


def test_a_visit_is_marked_as_offered_by_the_rule_alone() -> None:
    """No update beside it makes an offer of its own; a restart takes the mark away."""
    own = re.compile(
        r"update mainspring\.visit v? ?set (?:(?! where ).)*offered_while_parked = (?!false)"
    )

    assert [name for name, text in texts(KERNEL) if own.search(text)] == []


@pytest.mark.parametrize("known", ["mainspring.process", "look/", "? '@'", "array['@'", '{"@"'])
def test_the_kernel_knows_nothing_of_processes(known: str) -> None:
    """A layer says what its payloads and keys mean (`Layer.parked`, restarted_payload)."""
    assert [name for name, text in texts(KERNEL) if known in text] == []


def test_no_layer_takes_an_error_apart_by_its_sentence() -> None:
    """What a worker's death says to people is in recover.sql; that it was one is told by `crashes`."""
    sentence = "the worker that ran it died"
    branches = re.compile(rf"(?:startswith|starts_with|==|like|\bin)\W+{sentence}")

    assert [name for name, text in texts(SOURCE) if branches.search(text)] == []
