# mypy: no-warn-unreachable
# pyright: strict, reportUnusedCoroutine=false, reportUnusedExpression=false
"""Types of pydantic and SQLAlchemy as checkers see them: a marked line is refused. Never run."""

from __future__ import annotations

from typing import assert_type

from pydantic import BaseModel
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mainspring import Context, Kind, Mainspring, Promise, Untouched, Update
from mainspring.tasks.declare.handle import Handle

app = Mainspring()


class Line(BaseModel):
    price: int


class Base(DeclarativeBase):
    pass


class Listing(Base):
    __tablename__ = "listing"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str] = mapped_column()


@app.task
async def charge(ctx: Context, line: Line, more: list[Line] | None = None) -> Line:
    await ctx.complete(line, on=5)  # error
    return line


async def calls() -> None:
    assert_type(await charge.enqueue(Line(price=1), [Line(price=2)]), Handle[Line])
    await charge.enqueue({"price": 1})  # error
    charge.bind(Line(price=1), more=Line(price=2))  # error


@app.process
def buy(line: Line) -> Promise[Line]:
    return charge(charge(line))


lines = app.entities("line", table="public.line", model=Line)
assert_type(lines, Kind[Line])
listings = app.entities("listing", table="public.listing", model=Listing)
assert_type(listings, Kind[Listing])


@lines.stage(state=Line)
async def look(found: Line, state: Line | None) -> Update | Untouched:
    return Update(found.model_copy(update={"price": 2}), state=found)


@listings.stage
class Rename:
    async def process(self, found: Listing, state: None) -> Update:
        found.title = found.title.upper()
        return Update(found)


@listings.stage  # error
async def of_others(found: Line) -> Untouched:
    return Untouched()
