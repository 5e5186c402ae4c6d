"""S26: rows as models of pydantic and of SQLAlchemy, where a user has those already."""

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator
from sqlalchemy import ForeignKey, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    column_property,
    mapped_column,
    relationship,
)
from sqlalchemy.orm.exc import DetachedInstanceError

from mainspring import Update
from mainspring.entities.declare.model import Model
from mainspring.errors import InvalidArguments, InvalidKind, InvalidOutcome, UndeclaredField
from mainspring.testing import run_until_idle
from stages import Stages


class Listing(BaseModel):
    id: int
    heading: str = Field(alias="title")
    price: int = Field(ge=0)
    rank: int = 0

    @property
    def is_cheap(self) -> bool:
        return self.price < 10

    @field_validator("heading")
    @classmethod
    def short(cls, value: str) -> str:
        if len(value) > 20:
            raise ValueError(f"{value} is too long")
        return value


class Base(DeclarativeBase):
    pass


class Owner(Base):
    __tablename__ = "owner"
    id: Mapped[int] = mapped_column(primary_key=True)


class MappedListing(Base):
    __tablename__ = "listing"
    id: Mapped[int] = mapped_column(primary_key=True)
    heading: Mapped[str] = mapped_column("title")
    price: Mapped[int] = mapped_column()
    rank: Mapped[int]
    note: Mapped[int | None] = mapped_column(ForeignKey("owner.id"))
    version: Mapped[int] = mapped_column()
    twice = column_property(price + price)
    owner: Mapped[Owner] = relationship()
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class DataBase(MappedAsDataclass, DeclarativeBase):
    pass


class DataListing(DataBase):
    __tablename__ = "listing"
    id: Mapped[int] = mapped_column(primary_key=True)
    heading: Mapped[str] = mapped_column("title")
    price: Mapped[int]
    rank: Mapped[int] = mapped_column(default=0)


MODELS = [Listing, MappedListing, DataListing]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("reads", [None, ["title", "price"]])
async def test_a_stage_changes_entities_of_the_model(
    stages: Stages, model: type[Any], reads: list[str] | None
) -> None:
    """Whole and in parts; by a patch, and by the entity itself, under the names of the columns."""
    listing = stages.kind(model=model)
    seen = []

    @listing.stage(reads=reads, writes=["rank", "title"])
    async def rate(entity: Any) -> Update:
        seen.append((type(entity).__name__, entity.id, entity.heading))
        return Update(rank=entity.price * 2)

    @listing.stage(reads=None if reads is None else [*reads, "rank"], writes=["title"])
    async def shout(entity: Any) -> Update:
        if isinstance(entity, BaseModel):
            return Update(entity.model_copy(update={"heading": entity.heading.upper()}))
        entity.heading = entity.heading.upper()
        return Update(entity)

    await stages.install()
    stages.add(1, title="ann", price=4)
    await run_until_idle(stages.app)

    assert (model.__name__, 1, "ann") in seen
    found = stages.listing()
    assert (found["title"], found["rank"]) == ("ANN", 8)
    assert stages.query("select * from mainspring.visit") == []


async def test_a_part_of_a_pydantic_model_has_its_methods_and_no_other_field(
    stages: Stages,
) -> None:
    listing = stages.kind(model=Listing)
    said = []

    @listing.stage(reads=["price"], writes=["rank"])
    async def rate(entity: Listing) -> Update:
        said.append(entity.is_cheap)
        with pytest.raises(UndeclaredField, match="looks at 'heading', which it does not declare"):
            print(entity.heading)
        with pytest.raises(TypeError, match="unexpected keyword argument 'heading'"):
            listing.encode(entity.model_copy(update={"heading": "x"}))
        return Update(rank=1)

    await stages.install()
    stages.add(1, title="ann", price=4)
    await run_until_idle(stages.app)
    assert (said, stages.listing()["rank"]) == ([True], 1)


async def test_a_mapped_object_is_as_one_of_a_closed_session(stages: Stages) -> None:
    """Relations are not there; it can be merged into a session of one's own."""
    stages.add(1, title="ann", price=4)
    model = Model("listing", MappedListing)
    entity = model.decode(
        {"id": 1, "title": "bob", "price": 4, "rank": 0, "note": None, "version": 1}
    )
    with pytest.raises(DetachedInstanceError):
        print(entity.owner)
    entity.price = 5
    engine = create_async_engine(stages.url.replace("postgresql:", "postgresql+asyncpg:", 1))
    async with AsyncSession(engine, expire_on_commit=False) as session:
        merged = await session.merge(entity)
        await session.commit()
        assert (await session.scalar(select(MappedListing.twice))) == 10
        assert merged.version == 2
    await engine.dispose()
    part = Model("listing", MappedListing, ["price"]).decode({"id": 1, "price": 4})
    with pytest.raises(DetachedInstanceError):
        print(part.heading)


async def test_what_does_not_fit_is_told_without_its_value(stages: Stages) -> None:
    drafts = stages.app.documents("draft", model=Listing)
    await stages.install()
    await drafts.put("a", Listing(id=1, title="one", price=2))
    assert stages.value("select body from mainspring.document") == {
        "id": 1, "title": "one", "price": 2, "rank": 0,
    }  # fmt: skip
    assert await drafts.get("a") == (Listing(id=1, title="one", price=2), 1)
    bad = Listing(id=1, title="one", price=2).model_copy(update={"price": -77})
    with pytest.raises(
        InvalidArguments, match="Listing does not fit: price: greater_than_equal"
    ) as told:
        await drafts.put("a", bad)
    assert "77" not in str(told.value)
    with pytest.raises(
        ValueError, match=r"'price' as int: value does not fit: .* greater_than_equal"
    ):
        Model("k", Listing).check({"title": "x", "price": -77})


def test_a_field_that_has_two_names_is_no_column() -> None:
    class Two(BaseModel):
        id: int
        a: int = Field(validation_alias="b", serialization_alias="c")

    with pytest.raises(InvalidKind, match=r"field 'a' of .*Two is read as 'b' and written as 'c'"):
        Model("two", Two)
    with pytest.raises(
        InvalidKind, match="a pydantic model, a mapped class of SQLAlchemy's or None"
    ):
        Model("two", int)


async def test_a_state_may_be_a_pydantic_model(stages: Stages) -> None:
    class Mood(BaseModel):
        model_config = ConfigDict(frozen=True)
        word: str
        seen: list[Listing] = []

    listing = stages.kind(model=Listing)
    moods = []

    @listing.stage(state=Mood)
    async def feel(entity: Listing, state: Mood | None) -> Update:
        moods.append(state)
        return Update(state=Mood(word="glad", seen=[entity]))

    await stages.install()
    stages.add(1, title="ann", price=4)
    await run_until_idle(stages.app)
    stages.change(1, price=5)
    await run_until_idle(stages.app)
    assert moods[0] is None
    assert moods[-1] == Mood(word="glad", seen=[Listing(id=1, title="ann", price=4)])
    state = listing.stages["feel"].state
    with pytest.raises(InvalidOutcome, match="Mood does not fit: word: string_type"):
        state.encode(Mood.model_construct(word=5))
