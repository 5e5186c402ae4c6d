"""T13, T12: pydantic models in signatures and results, beside dataclasses and Structs."""

import subprocess
import sys
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID, uuid4

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, computed_field

from mainspring import Context, Mainspring
from mainspring.errors import InvalidArguments, InvalidSetting, InvalidTask
from mainspring.processes.declare.decider_api import Signal

pytestmark = pytest.mark.filterwarnings("error")
T = TypeVar("T")


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Line(BaseModel):
    """With an alias, a strict date, a computed default and a computed field."""

    model_config = ConfigDict(extra="forbid", strict=True)
    price: Decimal = Field(alias="thePrice", gt=0)
    at: date
    id: UUID = Field(default_factory=uuid4)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> Decimal:
        return self.price * 2


class Box(BaseModel, Generic[T]):
    inside: T


class Names(RootModel[list[str]]):
    pass


class Wrapped(msgspec.Struct):
    line: Line


@pytest.fixture
def order(app: Mainspring) -> Any:
    @app.task
    async def order(
        lines: list[Line],
        one: Line | None = None,
        by: dict[str, Line] | None = None,
        pet: Pet | None = None,
        pets: list[Cat | Dog] | None = None,
        count: Annotated[int, Field(gt=3)] = 5,
        box: Box[Line] | None = None,
        names: Names | None = None,
        wrapped: Wrapped | None = None,
    ) -> list[Line]:
        return lines

    return order


LINE = Line(thePrice=Decimal("1.10"), at=date(2020, 1, 1))


async def test_they_travel_there_and_back(app: Mainspring, order: Any) -> None:
    """Nested in lists, dicts and optional; the default that was computed at the call stays."""
    given = {
        "lines": [LINE, LINE.model_copy()], "one": LINE, "by": {"a": LINE}, "pet": Dog(name="x"),
        "pets": [Cat(), Dog(name="y")], "count": 4, "box": Box[Line](inside=LINE),
        "names": Names(["a"]), "wrapped": Wrapped(LINE),
    }  # fmt: skip
    call = order.bind(**given)
    found = order.signature.decode(call.payload.decode())
    assert found == given
    assert [type(pet) for pet in found["pets"]] == [Cat, Dog]
    assert b"double" not in call.payload
    async with app.worker():
        handle = await order.enqueue([LINE])
        assert await handle.result(timeout=30) == [LINE]


def test_either_name_of_a_field_is_read(order: Any) -> None:
    for name in ("price", "thePrice"):
        call = order.bind([{name: "1.10", "at": "2020-01-01", "id": str(LINE.id)}])
        assert order.signature.decode(call.payload.decode())["lines"] == [LINE]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"lines": [{"thePrice": "hunter2", "at": "2020-01-01"}]},
         "Line does not fit: thePrice: decimal_parsing (got str) - at `$.lines[0]`"),
        ({"lines": [{"thePrice": "-1", "at": "hunter2", "hunter2": 1}]},
         "Line does not fit: thePrice: greater_than (got str), at: date_parsing "
         "(got str), ...: extra_forbidden (got int) - at `$.lines[0]`"),
        ({"lines": [], "by": {"hunter2": {}}},
         "Line does not fit: thePrice: missing (got dict), at: missing (got dict) - at `$.by[...]`"),
        ({"lines": [], "pet": {"kind": "hunter2"}},
         "value does not fit: the value: union_tag_invalid (got dict) - at `$.pet`"),
        ({"lines": [], "count": 1},
         "value does not fit: the value: greater_than (got int) - at `$.count`"),
        ({"lines": [LINE.model_copy(update={"price": "hunter2"})]},
         "Line does not fit: price: decimal_parsing (got str) - at `$.lines[0]`"),
        ({"lines": [], "names": [5]},
         "Names does not fit: 0: string_type (got int) - at `$.names`"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_by_field_and_type(order: Any, given: Any, told: str) -> None:
    with pytest.raises(InvalidArguments) as found:
        order.bind(**given)
    assert told in str(found.value)
    assert "hunter2" not in str(found.value)
    assert found.value.__cause__ is None


def test_what_is_stored_and_no_longer_fits_is_told_likewise(order: Any) -> None:
    with pytest.raises(
        InvalidArguments, match=r"stored arguments .* Line does not fit: at: missing"
    ):
        order.signature.decode('{"lines": [{"thePrice": "1"}]}')
    with pytest.raises(InvalidArguments, match=r"result of .* Line does not fit: at: missing"):
        order.signature.decode_result('[{"thePrice": "1"}]')


def test_a_secret_is_refused_when_it_is_declared(app: Mainspring) -> None:
    """It would be written as asterisks."""

    class Login(BaseModel):
        password: SecretStr

    class Logins(BaseModel):
        all: dict[str, Login]

    async def task(logins: list[Logins]) -> None: ...

    with pytest.raises(InvalidTask, match=r"field 'password' of .*Login is a SecretStr, which is"):
        app.task(task)


def test_what_json_cannot_say_is_refused(app: Mainspring) -> None:
    class Maybe(BaseModel):
        number: float | None = None
        word: str = ""
        any: object = None

    @app.task
    async def task(maybe: Maybe) -> None: ...

    with pytest.raises(InvalidArguments, match="NaN"):
        task.bind(Maybe(number=float("nan")))
    with pytest.raises(InvalidArguments, match="NUL"):
        task.bind(Maybe(word="\x00"))
    with pytest.raises(InvalidArguments, match=r"Maybe cannot be written \(Pydantic"):
        task.bind(Maybe(any=object()))


async def test_steps_of_a_process_and_signals_take_them(app: Mainspring) -> None:
    @app.task
    async def price(line: Line, ctx: Context) -> Line:
        return line

    @app.task
    async def total(lines: list[Line], pet: Pet) -> str:
        return f"{lines} {pet}"

    @app.process
    async def buy(line: Line) -> Any:
        first = price(line)
        return total([first, price(line)], Dog(name="x"))

    async with app.worker():
        handle = await buy.start(LINE)
        assert await handle.result(timeout=30) == f"{[LINE, LINE]} {Dog(name='x')}"

    signal = Signal("paid", Line)
    assert '"price":"1.10"' in signal.encode(LINE)
    with pytest.raises(InvalidArguments, match="Line does not fit: thePrice: missing"):
        signal.encode({"at": "2020-01-01"})
    with pytest.raises(InvalidSetting, match="cannot travel"):
        Signal("bad", object.__subclasses__)  # type: ignore[arg-type]


def test_pydantic_is_not_imported_for_others() -> None:
    code = (
        "import sys\n"
        "from mainspring import Mainspring\n"
        "app = Mainspring('postgresql://h/d')\n"
        "@app.task\n"
        "def task(numbers: list[int], word: str | None = None) -> None: ...\n"
        "task.bind([1])\n"
        "assert not {'pydantic', 'sqlalchemy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
