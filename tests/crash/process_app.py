"""The application of the processes' crash tests: a decider, a fan-out and a join."""

from __future__ import annotations

from mainspring import Context, Mainspring, Outcome, Promise, RetryPolicy, lock, scope

app = Mainspring()
RETRY = RetryPolicy(attempts=100, first=0.05, most=0.2)


@app.task(retry=RETRY)
async def square(n: int) -> int:
    return n * n


@app.task(retry=RETRY)
async def add(numbers: list[int]) -> int:
    return sum(numbers)


@app.process(retry=RETRY)
def sums(n: int) -> Promise[int]:
    total = add([square(i) for i in range(n)])
    return again(total)


@app.process(retry=RETRY)
def again(total: int) -> Promise[int]:
    return add([square(total), square(1)])


@app.task(retry=RETRY)
async def book(what: str) -> str:
    return what


@app.task(retry=RETRY)
async def free(what: str, booked: Outcome[str]) -> None: ...


go = app.signal("go", bool)


@app.process(retry=RETRY)
def trip(n: int) -> Promise[bool]:
    with scope() as s:
        hotel = book(f"hotel {n}")
        hotel.compensate(free, f"hotel {n}", hotel)
        car = book(f"car {n}", after=[hotel])
        car.compensate(free, f"car {n}", car)
        s.returns(go.wait())
    return s.promise


squares = app.group(then=add, name="squares", retry=RETRY)


@app.task(retry=RETRY)
async def note(ctx: Context, name: str, who: int, what: str) -> None:
    async with ctx.transaction() as connection:
        text = "insert into lock_log (name, who, what) values (%s, %s, %s)"
        await connection.execute(text, (name, who, what))


@app.process(retry=RETRY)
def guarded(name: str, who: int) -> Promise[None]:
    with lock(name) as s:
        s.returns(note(name, who, "ends", after=[note(name, who, "begins")]))
    return s.promise
