"""Words of other libraries, and what is said here: for who writes them out of habit."""

from __future__ import annotations

from mainspring.phrases import nearest

# Options of a call elsewhere -> how it is written here.
_OPTIONS = {
    "countdown": "delay=... (seconds, or a timedelta)",
    "schedule_in": "delay=... (seconds, or a timedelta)",
    "eta": "at=... (a datetime with its zone)",
    "schedule_at": "at=... (a datetime with its zone)",
    "run_at": "at=... (a datetime with its zone)",
    "expires": "expires_at=... (a datetime with its zone)",
    "lock": "key=..., or group=... with group_concurrency=1 at the task",
    "queueing_lock": "key=...",
    "task_id": "key=...",
    "connection": "on=...",
    "session": "on=...",
    "max_retries": "@app.task(retry=RetryPolicy(attempts=...))",
    "retries": "@app.task(retry=RetryPolicy(attempts=...))",
    "queue": "@app.task(pool=...): each task has a queue of its own",
}
# Verbs elsewhere -> how a call is written here.
VERBS = {
    "delay": "await {}.enqueue(...)",
    "apply_async": "await {}.options(delay=..., at=..., priority=...).enqueue(...)",
    "defer": "{}.enqueue_sync(...)",
    "defer_async": "await {}.enqueue(...)",
    "send": "{}.enqueue_sync(...)",
    "send_with_options": "{}.options(...).enqueue_sync(...)",
    "kiq": "await {}.enqueue(...)",
    "configure": "{}.options(...)",
    "s": "{}.bind(...)",
    "si": "{}.bind(...)",
    "signature": "{}.bind(...)",
}


def option_hint(name: str, known: list[str]) -> str:
    """What to write instead of an option that does not exist."""
    if (here := _OPTIONS.get(name)) is not None:
        return f"; write {here}"
    return nearest(name, known) or f"; there are {', '.join(sorted(known))}"


def setting_hint(name: str, known: list[str]) -> str:
    """What to write instead of a setting of a task that does not exist."""
    here = _OPTIONS.get(name, "")
    if here and not here.startswith("@app.task"):
        return f"; each call says it: task.options({here})"
    return option_hint(name, known)


def verb_hint(task: str, verb: str) -> str:
    """What to write instead of a verb of another library."""
    async_verb = VERBS[verb].format(task)
    plain = "" if not async_verb.startswith("await") else " (in plain code: enqueue_sync)"
    return f"task {task!r} has no {verb}(): write {async_verb}{plain}"
