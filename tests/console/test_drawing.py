"""Pictures of processes: who stands where, what is drawn as one, which times are folded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mainspring.console.drawing import chart, gantt, graph
from mainspring.operate.status import MinuteRuns
from mainspring.processes.operate.graph import GraphTask

START = datetime(2026, 1, 1, tzinfo=UTC)


def task(
    id: str,
    made_by: str | None = None,
    waits_for: tuple[str, ...] = (),
    *,
    actor: str | None = None,
    state: str = "done",
    at: float = 0,
    took: float = 1,
) -> GraphTask:
    made = START + timedelta(seconds=at)
    return GraphTask(
        id=id,
        created_by=made_by,
        promise=f"p{id}",
        actor=actor or id,
        state=state,
        outcome="ok",
        generation=0,
        scope_id=None,
        created_at=made,
        changed_at=made + timedelta(seconds=took),
        error=None,
        external=None,
        signal=None,
        due_at=None,
        child=None,
        queue=None,
        visit_due_at=None,
        running=False,
        parked_at=None,
        attempt=None,
        visit_error=None,
        inputs=[(f"p{other}", "value") for other in waits_for],
    )


def test_who_waits_stands_to_the_right() -> None:
    tasks = [task("root"), task("a", "root"), task("b", "root"), task("sum", "root", ("a", "b"))]
    picture = graph.draw(tasks)
    x = {box.text: box.x for box in picture.boxes}
    assert x["root"] < x["a"] == x["b"] < x["sum"]
    assert len(picture.paths) == 4
    assert len({(box.x, box.y) for box in picture.boxes}) == 4


def test_many_calls_of_one_actor_are_one_node() -> None:
    items = [task(f"i{n}", "root", actor="price") for n in range(9_998)]
    items[7] = task("i7", "root", actor="price", state="parked")
    picture = graph.draw([task("root"), *items, task("end", "root", tuple(t.id for t in items))])
    many = next(box for box in picture.boxes if box.text.startswith("price"))
    assert (many.text, many.status) == ("price x 9,998", "parked")
    assert many.note == "9,997 done, 1 parked"
    assert (len(picture.boxes), picture.left_out) == (3, 0)


def test_what_is_beyond_the_most_is_counted() -> None:
    chain = [task("t0"), *(task(f"t{n}", "t0", (f"t{n - 1}",)) for n in range(1, 400))]
    picture = graph.draw(chain)
    assert (len(picture.boxes), picture.left_out) == (graph.MOST, 100)


def test_a_loop_of_tail_calls_ends() -> None:
    """The last call of a loop fulfils the promise that the first one waits for."""
    first, last = task("first", waits_for=("last",)), task("last", "first", ("first",))
    assert len(graph.draw([first, last]).boxes) == 2


def test_a_time_in_which_nothing_happened_is_folded() -> None:
    tasks = [task("a", at=0, took=60), task("b", "a", at=60, took=60), task("c", at=604_800)]
    drawn = gantt.draw(tasks, START + timedelta(days=8))
    assert [fold.text for fold in drawn.folds] == ["6 d 23 h"]
    a, b, c = drawn.bars
    assert a.width > 300
    assert abs(b.x - (a.x + a.width)) < 1
    assert c.x > b.x + b.width + gantt.FOLDED - 1
    assert c.x + c.width <= drawn.width + 3


def test_what_has_not_ended_lasts_until_now() -> None:
    drawn = gantt.draw([task("a", state="open", took=0)], START + timedelta(seconds=30))
    assert drawn.bars[0].width == gantt.WIDTH
    assert "30 s" in drawn.bars[0].title


def test_bars_stand_for_the_runs_of_their_minutes() -> None:
    minutes = [MinuteRuns(START + timedelta(minutes=n), n * 10, n, 5.0) for n in range(5)]
    drawn = chart.draw(minutes)
    assert (drawn.top, drawn.bars[-1].height, drawn.bars[0].height) == (40, chart.HEIGHT, 0)
    assert drawn.bars[-1].failed == chart.HEIGHT / 10
    assert [bar.label for bar in drawn.bars] == ["00:00", "", "", "", ""]
    assert chart.draw([]).bars == []
