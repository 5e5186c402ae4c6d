"""All that is known of one entity, for people: queues, timers, states, and who changed what."""

from __future__ import annotations

from shlex import quote

import typer

from mainspring.cli import codes, show
from mainspring.entities.operate.why import EntityWhy, Happened, Queued

# Visits that wait for these go on by themselves.
_GOES_ON = ("scheduled", "backoff", "running", "turn_busy", "about_to_run")


def print_entity(found: EntityWhy, *, json: bool) -> None:
    """Print what is known of an entity; exit 4 if nothing is."""
    if json:
        show.as_json(found)
    elif found.is_known:
        show.say(f"{found.kind} {found.key}{'' if found.entity else ': not there (any more)'}")
        if found.entity:
            show.say(f"  {show.cell(found.entity)}")
        _print_queues(found)
        _print_states(found)
        for waiting in found.undelivered:
            show.say(
                f"{waiting.events} events wait for {waiting.consumer}, first {waiting.first}"
                f" (mainspring entities skip {found.kind} {quote(found.key)} {quote(waiting.consumer)})"
            )
        _print_story(found)
    else:
        show.say(
            f"nothing is known of {found.kind} {found.key}: no entity, visit, state or history"
        )
    if not found.is_known:
        raise typer.Exit(codes.NOT_FOUND)


def _print_queues(found: EntityWhy) -> None:
    rows = [
        (q.entry.queue, q.entry.state, q.entry.due_at, q.entry.attempt, _reason(q))
        for q in found.queues
    ]
    columns = ("queue", "state", "due", "failures", "why")
    show.print_table(columns, rows, empty="in no queue: at rest")
    for queued in found.queues:
        if queued.cause not in _GOES_ON:
            show.say(f"{queued.entry.queue}: what to do: {queued.remedy}")


def _reason(queued: Queued) -> str:
    """Why it waits there, and what its last run said."""
    last = (queued.entry.error or "").partition("\n")[0]
    said = f" ({show.first_line(last)})" if last and last not in queued.text else ""
    return f"{queued.cause}: {queued.text}{said}"


def _print_states(found: EntityWhy) -> None:
    if found.states:
        rows = [
            (s.stage, s.version, s.message_type if s.body is None else s.body, s.changed_at)
            for s in found.states
        ]
        show.print_table(("state of", "version", "value", "changed"), rows, empty="")


def _print_story(found: EntityWhy) -> None:
    rows = [(h.at, h.who, h.lane, h.outcome, story(h)) for h in found.happened]
    never = "never visited yet; whether changes of its table are seen says mainspring doctor"
    show.print_table(("ended", "who", "lane", "outcome", "what"), rows, empty=never)


def story(happened: Happened) -> str:
    """What a run did, in one line."""
    parts = list(happened.because)
    parts += [
        f"{name} {show.cell(pair[0])} -> {show.cell(pair[1])}"
        for name, pair in happened.changed.items()
    ]
    if happened.version is not None:
        parts.append(f"version {happened.version}")
    if happened.state_version is not None:
        parts.append(f"state {happened.state_version}")
    if happened.asked:
        parts.append("asked " + ", ".join(f"{s}: {_answer(a)}" for s, a in happened.asked.items()))
    if happened.error:
        parts.append(show.first_line(happened.error))
    return "; ".join(parts)


def _answer(answer: object) -> str:
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return str(answer)
