"""A nightly pipeline: extract all sources, transform what came, load, report; started by cron.

One process a day, whatever happens: its id is the day, so a second start answers the first one.
`mainspring worker examples.nightly` waits for three o'clock; `mainspring tasks enqueue every_night --app
examples.nightly` does not.
"""

from __future__ import annotations

from datetime import UTC, date, datetime

from mainspring import Mainspring, Outcome, Promise, RetryPolicy

app = Mainspring()
SOURCES = ("orders", "returns", "visits")


@app.task(cron="0 3 * * *")
async def every_night() -> None:
    today = datetime.now(UTC).date()
    await nightly.options(id=f"nightly-{today}", attrs={"day": str(today)}).start(today)


@app.task(retry=RetryPolicy(attempts=1))
def extract(source: str, day: date) -> int:
    """Rows of a source; one of them is not there on Sundays."""
    if source == "visits" and day.weekday() == 6:
        raise FileNotFoundError(f"{source} of {day} was not delivered")
    return 100 * len(source)


@app.task
def load(rows: int) -> str:
    return f"{rows} rows"


@app.process
def nightly(day: date) -> Promise[str]:
    return transform(day, [extract(source, day) for source in SOURCES])


@app.process
def transform(day: date, extracted: list[Outcome[int]]) -> Promise[str]:
    """Goes on with what came; what did not is in the report."""
    missing = [s for s, found in zip(SOURCES, extracted, strict=True) if found.failed]
    return report(day, missing, load(sum(found.or_else(0) for found in extracted)))


@app.task
def report(day: date, missing: list[str], loaded: str) -> str:
    return f"{day}: {loaded}" + (f", without {', '.join(missing)}" if missing else "")
