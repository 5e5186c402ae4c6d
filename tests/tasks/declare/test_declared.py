"""What decorators are given: every slip is refused where it is written, with the nearest remedy."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring import Mainspring, ReactiveRun
from mainspring.errors import (
    InvalidArguments,
    InvalidProcess,
    InvalidSetting,
    InvalidStage,
    InvalidTask,
)
from mainspring.reactive.model.plain import new_data


@pytest.fixture
def app() -> Mainspring:
    return Mainspring("postgresql://nobody@127.0.0.1:1/none")


def work(n: int = 0) -> None: ...


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"retries": 3},
            "task 'work' has no setting 'retries'; write @app.task(retry=RetryPolicy(",
        ),
        (
            {"xyzzy": 3},
            "task 'work' has no setting 'xyzzy'; there are accept, ",
        ),
        ({"debounce": "5m"}, "task 'work': debounce= is for reactive tasks and needs when="),
        ({"produces": []}, "task 'work': produces= is for reactive tasks and needs when="),
        ({"searchable": "n"}, "searchable must be a list of names, got a text; write ['n']"),
        ({"name": ""}, "name= must be a text that is not empty, got ''"),
        ({"name": 7}, "name= must be a text that is not empty, got 7"),
    ],
)
def test_a_task_s_slips_are_named(app: Mainspring, settings: Any, message: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        app.task(**settings)(work)

    assert message in str(refused.value)


def test_times_may_be_a_timedelta(app: Mainspring) -> None:
    minute = timedelta(minutes=1)
    task = app.task(timeout=minute, work_timeout=minute)(work)
    process = app.process(name="p", timeout=minute, idle_timeout=minute)(work)
    stage = app.documents("doc").stage(name="s", timeout=minute)(lambda_free)

    assert (task.settings.timeout, task.settings.work_timeout) == (60.0, 60.0)
    assert (process.settings.timeout, process.settings.idle_timeout) == (60.0, 60.0)
    assert stage.settings.timeout == 60.0


def lambda_free(entity: Any) -> None: ...


def test_a_reactive_task_s_slips_are_named(app: Mainspring) -> None:
    """R1"""
    when = new_data(app.data("d").param("p"))

    with pytest.raises(InvalidTask, match="has no setting 'debonce'; did you mean 'debounce'"):
        app.task(when=when, debonce="5m")(work)
    with pytest.raises(InvalidSetting, match="work_timeout= is for tasks that are enqueued"):
        app.task(when=when, work_timeout=5)(work)


def test_a_reactive_task_s_parameter_is_its_run(app: Mainspring) -> None:
    """R1: what is said to be something else would get the run all the same."""
    when = new_data(app.data("d").param("p"))

    def daily(day: str) -> None: ...

    with pytest.raises(
        InvalidTask,
        match="'daily' is started by its trigger, which gives it its run and nothing else; its "
        "parameter 'day' is a str: give it a default, or take the run",
    ):
        app.task(when=when)(daily)

    def weekly(week) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(
        InvalidTask, match=r"if its parameter 'week' is the run say so \(week: ReactiveRun\), else"
    ):
        app.task(when=when)(weekly)

    @app.task(when=when)
    def typed(run: ReactiveRun) -> None: ...

    @app.task(when=when)
    def untyped(run, more: int = 3) -> None: ...

    @app.task(when=when)
    def anything(run: Any) -> None: ...


def test_a_process_s_slips_are_named(app: Mainspring) -> None:
    """P1"""
    with pytest.raises(InvalidProcess, match="process 'work' has no setting 'retries'; did you"):
        app.process(retries=3)(work)
    process = app.process(name="shop")(work)
    with pytest.raises(InvalidArguments, match="attrs must be a dict of names and values, got"):
        process.options(attrs=["x"])


def test_a_stage_s_slips_are_named(app: Mainspring) -> None:
    """S1"""
    kind = app.documents("listing")

    with pytest.raises(InvalidStage, match=r"a stage of kind 'listing' is a lambda.*with def"):
        kind.stage()(lambda listing: None)
    with pytest.raises(InvalidSetting, match="has no setting 'raeds'; did you mean 'reads'"):
        kind.stage(raeds=["title"])(lambda_free)
    with pytest.raises(InvalidStage, match="name= must be a text that is not empty"):
        kind.stage(name="")(lambda_free)
