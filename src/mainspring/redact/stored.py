"""The rules of all queues as the database keeps them.

A declaration adds to them and takes nothing away: a worker with the code of before must not show what the
new one hides. What is to be shown again is an operator's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from mainspring.db.sql import as_rows
from mainspring.db.tx import Tx
from mainspring.errors import InvalidSetting
from mainspring.redact.redactor import HIDDEN, NOTHING, Redactor
from mainspring.redact.statements import SQL


class RuleRow(NamedTuple):
    """A row of read_rules.sql."""

    queue: str
    fields: list[str]
    result: bool
    changed_at: datetime  # when it last hid something more


class Rules:
    """What is hidden, by queue."""

    def __init__(self, rows: Sequence[RuleRow] = ()) -> None:
        self._by_queue = {row.queue: Redactor(row.fields, result=row.result) for row in rows}
        self._since = {row.queue: row.changed_at for row in rows}

    def __bool__(self) -> bool:
        return bool(self._by_queue)

    def of(self, queue: str) -> Redactor:
        """The rule of a queue; of one that hides nothing it is false."""
        return self._by_queue.get(queue, NOTHING)

    def told(self, queue: str, text: str | None, at: datetime | None) -> str | None:
        """The text of a failure whose payload is not at hand. Workers have taken out what is hidden since
        the rule is there; of an earlier one only the type is told."""
        since = self._since.get(queue)
        if not text or since is None or (at is not None and at > since):
            return text
        return f"{text.partition(':')[0].splitlines()[0]}: {HIDDEN}"

    def message(self, queues: Iterable[str], text: str, at: datetime | None) -> str:
        """The same of a message without its type, which these queues may have told."""
        said = [self.told(queue, text, at) for queue in queues]
        return text if all(each == text for each in said) else HIDDEN

    def check_search(self, queue: str | None, fields: Mapping[str, str]) -> None:
        """Refuse a search by what is hidden: its answer would tell it."""
        rules = self._by_queue if queue is None else {queue: self.of(queue)}
        for name, rule in rules.items():
            for field, text in fields.items():
                if rule.reveals(field, text):
                    raise InvalidSetting(
                        f"queue {name!r} hides {', '.join(rule.fields)}, so it is not searched by "
                        f"{field!r}: the answer would tell what is hidden; search by the key, the group, "
                        "the time or another field"
                    )


async def read_rules(tx: Tx) -> Rules:
    """The rules of all queues. Few hide anything, so all are read."""
    return Rules(await tx.rows(SQL["read_rules"], RuleRow))


def rule_values(declared: Mapping[str, Redactor]) -> dict[str, object]:
    """The arguments of keep_rules.sql."""
    rules = [
        {"queue": queue, "fields": rule.fields, "result": rule.hides_result}
        for queue, rule in sorted(declared.items())
    ]
    return {"rules": as_rows(rules)}


async def keep_rules(tx: Tx, declared: Mapping[str, Redactor]) -> None:
    """Hide what code declares, from now on."""
    if declared:
        await tx.run(SQL["keep_rules"], **rule_values(declared))
